//! Merge operators registered with a store.

use alluvium_dictionary::merge::{
    AddOperator, AppendOperator, MaximumOperator, MergeOperator, MinimumOperator,
};
use std::sync::Arc;

/// A merge operator that keyspaces refer to by name.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredOperator {
    pub(crate) operator: Arc<dyn MergeOperator>,
    /// Whether the result is the same in whichever order operands are merged.
    pub(crate) is_commutative: bool,
}

impl RegisteredOperator {
    /// Returns the built-in operators, which every store knows.
    pub(crate) fn built_in() -> [RegisteredOperator; 4] {
        let of = |operator, is_commutative| RegisteredOperator {
            operator,
            is_commutative,
        };
        [
            of(Arc::new(AddOperator) as Arc<dyn MergeOperator>, true),
            of(Arc::new(AppendOperator), false),
            of(Arc::new(MinimumOperator), true),
            of(Arc::new(MaximumOperator), true),
        ]
    }
}
