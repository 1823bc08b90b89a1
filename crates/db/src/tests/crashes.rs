//! Crash tests and fault injection on stores with several kinds of structures, on one tier and on
//! two.

use super::story::Whole;
use crate::options::HashedForm;
use alluvium_sim::environment::{effort, number, points};
use alluvium_sim::{CrashCampaign, FaultCampaign, RunSettings};
use alluvium_storage::log::SegmentAccess;
use std::collections::BTreeMap;

/// Number of crash images to check.
const POINTS: u64 = 160;

const COMMAND: &str = "cargo test -p alluvium --lib -- a_store_with_both_kinds_survives --nocapture";

const STORIES: [Whole; 4] = [
    Whole {
        access: SegmentAccess::Mapped,
        lanes: 3,
        tiers: 1,
        forms: &[HashedForm::Boa {
            lambda: 2,
            refined: true,
        }],
    },
    Whole {
        access: SegmentAccess::Written,
        lanes: 2,
        tiers: 1,
        forms: &[HashedForm::Boa {
            lambda: 2,
            refined: false,
        }],
    },
    Whole {
        access: SegmentAccess::Written,
        lanes: 1,
        tiers: 2,
        forms: &[HashedForm::Silt, HashedForm::Bot { lambda: 2 }],
    },
    Whole {
        access: SegmentAccess::Mapped,
        lanes: 2,
        tiers: 2,
        forms: &[HashedForm::Boa {
            lambda: 2,
            refined: false,
        }],
    },
];

#[test]
fn a_store_with_both_kinds_survives_every_crash() {
    let points = points(POINTS);
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for story in STORIES {
        let settings = RunSettings {
            steps: 240,
            point_every: 120,
            nested_every: 48,
            verify_every: 20,
            ..RunSettings::default()
        };
        let campaign = CrashCampaign::new(story).settings(settings).command(COMMAND);
        let campaign = campaign.first_seed(number("ALLUVIUM_SIM_SEED", 1));
        let report = campaign.points(points.div_ceil(STORIES.len() as u64)).run();
        report.expect_clean();
        for (name, count) in report.coverage {
            *met.entry(name).or_default() += count;
        }
    }
    for name in [
        "checkpoint",
        "crash in a checkpoint",
        "incorporation",
        "nested recovery",
    ] {
        assert!(met.get(name).is_some_and(|&count| count > 0), "{name}: {met:?}");
    }
}

#[test]
fn a_store_with_both_kinds_survives_every_fault() {
    for story in STORIES {
        let settings = RunSettings {
            steps: 100,
            verify_every: 40,
            ..RunSettings::default()
        };
        let campaign = FaultCampaign::new(story).settings(settings).command(COMMAND);
        campaign.seeds(1, 1).every(effort(4801, 151)).run().expect_clean();
    }
}
