//! Recommends settings for an open store: how the engine obtains a recommendation, applies it and
//! observes its effect. Also lists the settings that the store chose itself.

use super::{Engine, EngineCounter};
use crate::advise::advice::watch::{LookupCounters, TrialDecision, TrialWatch};
use crate::advise::advice::{CacheAdvice, KEPT, OpenTrial, Trial, TrialOutcome, refused};
use crate::advise::choices::{SettingChoice, structure};
use crate::error::Result;
use crate::options::store::RecordShare;
use alluvium_base::Purpose;
use alluvium_model::structures::{StructureCost, StructureModel, TieredSettings};
use std::sync::atomic::Ordering;

impl Engine {
    /// Returns the settings that the store chose itself, with the reasons.
    pub(crate) fn choices(&self) -> Vec<SettingChoice> {
        let mut all = self.chosen.clone();
        if self.memory_budget() > 0 {
            // Computed once, because it depends on nothing that changes while the store is open.
            all.extend(
                self.chosen_structure
                    .get_or_init(|| structure(&self.plan))
                    .clone(),
            );
        }
        all
    }

    /// Returns the record cache share with the lowest predicted cost for the observed workload.
    /// Returns `None` without a cost model, or if the predicted improvement over the current share
    /// is smaller than the prediction's uncertainty.
    pub(crate) fn advise(&self) -> Result<Option<CacheAdvice>> {
        let Some((_, question)) = self.question()? else {
            return Ok(None);
        };
        let Some(now) = question.cost() else {
            return Ok(None);
        };
        let mut best: Option<(CacheAdvice, StructureCost)> = None;
        for choice in StructureModel::CHOICES {
            let StructureModel::Tiered(TieredSettings { records_share, .. }) = choice else {
                continue;
            };
            let Some((advice, cost)) = question.at_share(records_share) else {
                continue;
            };
            let is_better =
                |(_, best): &(CacheAdvice, StructureCost)| cost.total_ns.middle < best.total_ns.middle;
            if best.as_ref().is_none_or(is_better) {
                best = Some((advice, cost));
            }
        }
        let worth = best.filter(|(_, cost)| cost.total_ns.p90 < now.total_ns.middle);
        Ok(worth.map(|(advice, _)| advice))
    }

    /// Returns the predicted number of device reads per lookup if the record cache's share were
    /// `record_share`. Returns `None` if there is no cost model.
    pub(crate) fn advice_for(&self, record_share: f64) -> Result<Option<CacheAdvice>> {
        let share = CacheAdvice {
            record_share,
            p10: 0.0,
            predicted: 0.0,
            p90: 0.0,
        };
        share.check()?;
        let question = self.question()?;
        Ok(question.and_then(|(_, question)| Some(question.at_share(record_share)?.0)))
    }

    /// Sets the record cache's share to the recommended one, and starts to observe the effect.
    /// Fails while an earlier change is still being observed.
    pub(crate) fn apply_advice(&self, advice: &CacheAdvice) -> Result<()> {
        self.health()?;
        advice.check()?;
        if self.memory_budget() == 0 {
            return Err(refused("the store has no memory limit: it is a simulation"));
        }
        let now = self.counted();
        let mut state = self.trials.state.lock();
        if state.open.is_some() {
            let why = "an earlier change is being watched: apply the next one when that has ended";
            return Err(refused(why));
        }
        let (before, share_before) = self.record_share();
        let measured = now.since(&state.since);
        self.set_record_share(RecordShare::Fixed(advice.record_share))?;
        state.open = Some(OpenTrial {
            watch: TrialWatch::new(advice, measured, now),
            before,
        });
        if state.trials.len() == KEPT {
            state.trials.pop_front();
        }
        state.trials.push_back(Trial {
            advice: *advice,
            share_before,
            began_ms: now.at_ms,
            ended_ms: None,
            before: measured,
            measured: None,
            outcome: TrialOutcome::Watched,
        });
        self.trials.is_watching.store(true, Ordering::Release);
        Ok(())
    }

    /// Compares the device reads per lookup since the share was last changed with the prediction,
    /// and with those before the change. The observation ends once the result is clear, or after an
    /// hour. The change is reverted if lookups read more than before or more than predicted, or if
    /// there were too few lookups to decide.
    pub(crate) fn watch_trial(&self) -> Result<()> {
        if !self.trials.is_watching.load(Ordering::Acquire) {
            return Ok(());
        }
        let now = self.counted();
        let mut state = self.trials.state.lock();
        let Some(open) = &mut state.open else {
            return Ok(());
        };
        let step = open.watch.look(now);
        let before = open.before;
        let measured = open.watch.measured();
        let outcome = match step {
            TrialDecision::Wait => TrialOutcome::Watched,
            TrialDecision::End(outcome) => outcome,
        };
        if outcome.is_rolled_back() {
            self.set_record_share(before)?;
        }
        let trial = state.trials.back_mut().expect("N12: it is the last");
        trial.measured = measured;
        trial.outcome = outcome;
        if outcome != TrialOutcome::Watched {
            trial.ended_ms = Some(now.at_ms);
            state.open = None;
            state.since = now;
            self.trials.is_watching.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn counted(&self) -> LookupCounters {
        let of = |tally| self.counters.of(tally);
        LookupCounters {
            at_ms: self.time.peek(),
            lookups: of(EngineCounter::Gets) + of(EngineCounter::MultiGetKeys),
            reads: self.device_stats().of(Purpose::Lookup).reads,
        }
    }
}
