use super::*;

#[test]
fn bands_hold_their_middle_and_every_structure_answers() {
    let machine = Machine::default();
    for skew in [0.0, 0.99] {
        let workload = Workload {
            keys: 2e7,
            skew,
            ..Workload::default()
        };
        for structure in Structure::ALL.iter().chain(&Structure::CHOICES) {
            let cost = structure.cost(&workload, &machine).unwrap();
            for band in [
                cost.write_amplification,
                cost.hit_reads,
                cost.miss_reads,
                cost.space_amplification,
                cost.total_ns,
            ] {
                assert!(band.holds(band.middle) && band.p90.is_finite(), "{cost:?}");
            }
            assert!(cost.write_amplification.middle > 1.0, "{cost:?}");
            assert!(cost.total_ns.middle > 0.0, "{cost:?}");
            assert!(cost.space_amplification.middle > 0.9, "{cost:?}");
        }
    }
}

#[test]
fn skew_and_memory_save_reads_and_writes() {
    let ours = Structure::Tiered(Setting::USUAL);
    let of = |skew: f64, memory_bytes: f64| {
        let workload = Workload {
            keys: 1e7,
            skew,
            ..Workload::default()
        };
        let machine = Machine {
            memory_bytes,
            ..Machine::default()
        };
        ours.cost(&workload, &machine).unwrap()
    };
    let (uniform, skewed) = (of(0.0, 2e8), of(0.99, 2e8));
    assert!(skewed.write_amplification.middle < uniform.write_amplification.middle);
    assert!(skewed.hit_reads.middle < uniform.hit_reads.middle);
    assert!(of(0.0, 8e8).hit_reads.middle < uniform.hit_reads.middle);
    assert!(of(0.0, 1e10).hit_reads.middle < 1e-6, "all of it is in memory");
}

#[test]
fn a_store_too_large_to_go_through_is_extrapolated() {
    let machine = Machine {
        memory_bytes: 16.0 * 1024.0 * 1024.0,
        ..Machine::default()
    };
    let of = |keys: f64| {
        let workload = Workload {
            keys,
            ..Workload::default()
        };
        Structure::Tiered(Setting::USUAL)
            .point(&workload, &machine)
            .unwrap()
    };
    let (small, large) = (of(4e6), of(4e9));
    let more = large.write_amplification - small.write_amplification;
    // Three and a third more levels, a record is written once or twice more on each.
    assert!((2.0..12.0).contains(&more), "{small:?} {large:?}");
}

#[test]
fn what_is_no_workload_is_refused_by_name() {
    let machine = Machine::default();
    let cost = |workload: &Workload, machine: &Machine| {
        let refused = Structure::LevelDb.cost(workload, machine).unwrap_err();
        refused.name
    };
    let usual = Workload::default();
    let keys = |keys| cost(&Workload { keys, ..usual }, &machine);
    assert_eq!([0.0, 1.0, f64::NAN, 1e30].map(keys), ["the number of keys"; 4]);
    let skew = |skew| cost(&Workload { skew, ..usual }, &machine);
    assert_eq!([-0.1, f64::NAN, 100.0].map(skew), ["the skew"; 3]);
    let memory = |memory_bytes| {
        let machine = Machine {
            memory_bytes,
            ..machine
        };
        cost(&usual, &machine)
    };
    assert_eq!([0.0, f64::NAN, -1.0, 1e6].map(memory), ["the memory"; 4]);
    let nothing = Workload {
        operations: Operations {
            updates: 0.0,
            hits: 0.0,
            ..usual.operations
        },
        ..usual
    };
    assert_eq!(cost(&nothing, &machine), "the number of operations");
}
