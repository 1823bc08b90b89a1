//! What the theory says of tables of levels.

use crate::support::{KINDS, boa, key};
use alluvium_hashes::blocks::Machine;
use alluvium_hashes::boa::{Kind, Options};

#[test]
fn impossible_options_are_refused_by_name() {
    let good = Options::new(Kind::Routed, 512, 8192);
    for (bad, word) in [
        (Options { growth: 3, ..good }, "power of two"),
        (Options { growth: 0, ..good }, "power of two"),
        (Options { growth: 512, ..good }, "power of two"),
        (Options { fingerprint_bits: 4, ..good }, "8 to 128"),
        (Options { machine: Machine::Oblivious, ..good }, "routing trees"),
        (Options::new(Kind::Routed, 100, 8192), "128 bytes"),
        (Options::new(Kind::Routed, 512, 1024), "4 blocks"),
        (Options { beta_bits: Some(40), ..good }, "2^16"),
    ] {
        let text = bad.checked().unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    }
    for kind in KINDS {
        assert!(Options { kind, ..good }.checked().is_ok());
    }
}
