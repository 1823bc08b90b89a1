//! The fault driver on the toy store.

use crate::toy::{Flaw, ToyStory};
use alluvium_sim::harness::FaultTests;
use alluvium_sim::{FaultCampaign, RunSettings, replay};

fn campaign(flaw: Flaw) -> FaultCampaign<ToyStory> {
    FaultCampaign::new(ToyStory { flaw })
        .command("cargo test -p alluvium-sim --test it -- the_toy_survives_every_fault")
}

#[test]
fn the_toy_survives_every_fault() {
    let report = campaign(Flaw::None).seeds(1, 5).run();
    println!("{}", report.table());
    report.expect_clean();
    if std::env::var(replay::VARIABLE).is_err() {
        assert!(report.total() > 1000, "{}", report.total());
        for name in [
            "syncing io once",
            "writing io sticky",
            "reading io once",
            "growing full once",
            "small disk",
        ] {
            assert!(report.cases[name] > 0, "{name}: {:?}", report.cases);
        }
    }
}

#[test]
fn a_store_that_goes_on_after_an_error_is_found() {
    let finding = campaign(Flaw::IgnoresErrors)
        .run()
        .finding
        .expect("it acknowledges what it failed to write");
    assert!(finding.target.fault.is_some(), "{finding}");
    assert_eq!(finding.target.to_string().parse(), Ok(finding.target.clone()));
}

#[test]
fn a_failed_sync_that_somebody_acknowledges_is_found() {
    let faults = FaultTests {
        settings: RunSettings::default(),
        command: "",
        every: 1,
    };
    faults.find_acknowledged_failures(&ToyStory { flaw: Flaw::None }, &["journal", "slots"]);
}
