//! Merge operators that are registered with a store.

use alluvium_dictionary::merge::{
    AddOperator, AppendOperator, MaximumOperator, MergeOperator, MinimumOperator,
};
use std::sync::Arc;

/// A merge operator that keyspaces can refer to by its name.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredOperator {
    pub(crate) operator: Arc<dyn MergeOperator>,
    /// Whether operands may be merged in any order with the same result.
    pub(crate) is_commutative: bool,
}

impl RegisteredOperator {
    /// Returns the operators that every store knows.
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
