//! Ranks choices of structure and settings by cost, and computes the regret of each if the workload
//! drifts. Also determines whether a change is worthwhile.

use crate::verbs::model::question::refused;
use alluvium_model::structures::{MachineProfile, StructureCost, StructureModel, WorkloadProfile};
use anyhow::Result;

/// A structure with its settings, and its predicted cost.
#[derive(Clone, Debug)]
pub(super) struct RankedChoice {
    pub(super) cost: StructureCost,
    /// Maximum regret over all hours of the workload: the cost in excess of the best choice's,
    /// relative to the latter.
    pub(super) regret: f64,
    /// Whether this choice is the default of a store.
    pub(super) is_usual: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StructureAdvice {
    /// The choices, from the cheapest to the most expensive. Never empty.
    pub(super) choices: Vec<RankedChoice>,
    pub(super) verdict: String,
    /// Whether the advice is to change nothing.
    pub(super) leaves_it: bool,
}

/// Ranks all choices for a workload. Includes structures without key order only if no observed
/// workload contains scans.
pub(super) fn of(
    workload: &WorkloadProfile,
    machine: &MachineProfile,
    drifts: &[WorkloadProfile],
) -> Result<StructureAdvice> {
    let mut all = drifts.iter().chain([workload]);
    let needs_order = all.any(|workload| workload.operations.scans > 0.0);
    let costs = |workload: &WorkloadProfile| -> Result<Vec<StructureCost>> {
        let costs = StructureModel::CHOICES
            .iter()
            .filter(|choice| choice.is_ordered() || !needs_order)
            .map(|choice| choice.cost(workload, machine));
        costs.collect::<Result<Vec<_>, _>>().map_err(refused)
    };
    let now = costs(workload)?;
    let mut regrets = vec![0.0_f64; now.len()];
    for drift in drifts {
        let then = costs(drift)?;
        let least = then
            .iter()
            .map(|cost| cost.total_ns.middle)
            .fold(f64::INFINITY, f64::min);
        for (regret, cost) in regrets.iter_mut().zip(&then) {
            *regret = regret.max(cost.total_ns.middle / least.max(f64::MIN_POSITIVE) - 1.0);
        }
    }
    let choices = now.into_iter().zip(regrets).enumerate();
    let mut choices: Vec<RankedChoice> = choices
        .map(|(place, (cost, regret))| RankedChoice {
            cost,
            regret,
            is_usual: place == 0,
        })
        .collect();
    choices.sort_by(|one, other| one.cost.total_ns.middle.total_cmp(&other.cost.total_ns.middle));
    let usual = choices
        .iter()
        .find(|choice| choice.is_usual)
        .expect("it is one of them");
    let (leaves_it, verdict) = verdict(&choices[0], usual);
    Ok(StructureAdvice {
        leaves_it,
        verdict,
        choices,
    })
}

/// Determines whether the advice is to change nothing, and the reason. A change is advised only if
/// the 90th percentile of the best choice's predicted cost is below the middle estimate for the
/// default, and the best choice's regret is not larger than that of the default.
fn verdict(best: &RankedChoice, usual: &RankedChoice) -> (bool, String) {
    if best.is_usual {
        return (
            true,
            format!("leave it: nothing is cheaper than {}", best.cost.name),
        );
    }
    let gain = 1.0 - best.cost.total_ns.middle / usual.cost.total_ns.middle;
    let (name, percent) = (&best.cost.name, 100.0 * gain);
    if best.cost.total_ns.p90 >= usual.cost.total_ns.middle {
        let why = format!(
            "leave it: {name} would cost {percent:.0} % less, which is within the uncertainty of the prediction"
        );
        return (true, why);
    }
    if best.regret > usual.regret {
        let why = format!(
            "leave it: {name} would cost {percent:.0} % less now, but up to {:.0} % more than the best choice in an hour like one that was observed",
            100.0 * best.regret
        );
        return (true, why);
    }
    let structure = best.cost.name.replace(", ", ",");
    let how = match structure.split(',').next() {
        Some("tiered") => {
            "try it in a running server with `alluvium advise --apply`, or open the store with that share of its memory for records (`Options::record_memory`)".to_owned()
        }
        Some("hashed") => format!(
            "create a keyspace with `alluvium keyspaces create NAME --structure {structure}` and move the data there, if nothing will ever scan its keys in order"
        ),
        _ => format!(
            "create a keyspace with `alluvium keyspaces create NAME --structure levels,{structure}` and move the data there"
        ),
    };
    (
        false,
        format!("change to {name}: it would cost {percent:.0} % less; {how}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(p10: f64, middle: f64, p90: f64, regret: f64, is_usual: bool) -> RankedChoice {
        let workload = WorkloadProfile {
            keys: 1e5,
            ..WorkloadProfile::default()
        };
        let mut cost = StructureModel::CHOICES[3]
            .cost(&workload, &MachineProfile::default())
            .unwrap();
        (cost.total_ns.p10, cost.total_ns.middle, cost.total_ns.p90) = (p10, middle, p90);
        RankedChoice {
            cost,
            regret,
            is_usual,
        }
    }

    #[test]
    fn a_gain_within_the_band_is_none() {
        let usual = choice(90.0, 100.0, 110.0, 0.1, true);
        let says = |best: &RankedChoice| verdict(best, &usual);
        assert!(says(&usual).0);
        assert!(
            says(&choice(60.0, 80.0, 101.0, 0.0, false))
                .1
                .contains("within the uncertainty")
        );
        assert!(
            says(&choice(50.0, 60.0, 70.0, 0.4, false))
                .1
                .contains("40 % more")
        );
        let (leaves_it, why) = says(&choice(50.0, 60.0, 70.0, 0.0, false));
        assert!(
            !leaves_it && why.contains("40 % less") && why.contains("--structure levels,samt,k=4"),
            "{why}"
        );
        let mut hashed = choice(50.0, 60.0, 70.0, 0.0, false);
        hashed.cost.name = "hashed, index=pachash".to_owned();
        let (_, why) = says(&hashed);
        assert!(why.contains("--structure hashed,index=pachash`"), "{why}");
    }

    #[test]
    fn choices_are_in_the_order_of_their_costs_and_each_has_its_regret() {
        let workload = WorkloadProfile {
            keys: 1e6,
            ..WorkloadProfile::default()
        };
        let machine = MachineProfile {
            memory_bytes: 64.0 * 1024.0 * 1024.0,
            ..MachineProfile::default()
        };
        let drift = WorkloadProfile {
            operations: alluvium_model::structures::OperationRates {
                updates: 0.0,
                ..workload.operations
            },
            ..workload
        };
        let advice = of(&workload, &machine, &[workload, drift]).unwrap();
        let totals: Vec<f64> = advice
            .choices
            .iter()
            .map(|choice| choice.cost.total_ns.middle)
            .collect();
        assert!(totals.is_sorted() && totals.len() == StructureModel::CHOICES.len());
        assert!(advice.choices.iter().all(|choice| choice.regret >= 0.0));
        assert_eq!(advice.choices.iter().filter(|choice| choice.is_usual).count(), 1);
        let has_hashed = |advice: &StructureAdvice| {
            let mut names = advice.choices.iter().map(|choice| &choice.cost.name);
            names.any(|name| name.starts_with("hashed"))
        };
        assert!(has_hashed(&advice));
        let scanned = WorkloadProfile {
            operations: alluvium_model::structures::OperationRates {
                scans: 1.0,
                ..workload.operations
            },
            ..workload
        };
        let advice = of(&workload, &machine, &[workload, scanned]).unwrap();
        assert!(!has_hashed(&advice), "an hour asked for an order");
    }
}
