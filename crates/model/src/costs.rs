//! The three cost models, implemented as cost clocks (Bender §2: DAM, Definition 1: PDAM,
//! Definition 2: affine).

use alluvium_base::cost::{AccessKind, CostClock, CostFault, DeviceAccess};
use std::collections::HashMap;

/// The disk-access machine (DAM), which models a device that transfers one block at a time. Every
/// block takes the same time.
///
/// The cost of an access is the number of blocks that it touches. Accesses are serialised.
///
/// ```
/// use alluvium_base::cost::{DeviceAccess, AccessKind, CostClock};
/// use alluvium_model::DamClock;
/// let mut dam = DamClock::new(4096, 100);
/// let access = DeviceAccess { file: 0, offset: 4095, len: 2, kind: AccessKind::Read };
/// assert_eq!(dam.charge(0, &access), Ok(200)); // it touches two blocks
/// ```
#[derive(Clone, Debug)]
pub struct DamClock {
    block: u64,
    transfer_ns: u64,
    free_ns: u64,
}

impl DamClock {
    /// Creates a device that transfers a block of `block` bytes in `transfer_ns` nanoseconds.
    ///
    /// # Panics
    /// If `block` is zero.
    #[must_use]
    pub fn new(block: u64, transfer_ns: u64) -> DamClock {
        assert!(block > 0, "a block has bytes");
        DamClock {
            block,
            transfer_ns,
            free_ns: 0,
        }
    }
}

impl CostClock for DamClock {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        self.free_ns =
            self.free_ns.max(now_ns) + blocks(access, self.block).count() as u64 * self.transfer_ns;
        Ok(self.free_ns)
    }
}

/// The affine model: an access of x bytes costs a setup time plus x times a transfer time. Accesses
/// are serialised, because a disk has a single arm.
///
/// ```
/// use alluvium_base::cost::{DeviceAccess, AccessKind, CostClock};
/// use alluvium_model::AffineClock;
/// let mut disk = AffineClock::new(15_000_000, 33_000, 4096);
/// let access = DeviceAccess { file: 0, offset: 0, len: 8192, kind: AccessKind::Read };
/// assert_eq!(disk.charge(0, &access), Ok(15_066_000));
/// assert_eq!(disk.charge(0, &access), Ok(30_132_000));
/// assert_eq!(disk.half_bandwidth(), 1_861_818); // where the setup costs as much as the transfer
/// ```
#[derive(Clone, Debug)]
pub struct AffineClock {
    setup_ns: u64,
    transfer_ns: u64,
    unit: u64,
    free_ns: u64,
}

impl AffineClock {
    /// Creates a device with a setup time of `setup_ns` nanoseconds per access and a transfer time
    /// of `transfer_ns` nanoseconds per `unit` bytes. Fractions of a nanosecond are rounded up.
    ///
    /// # Panics
    /// If `unit` is zero.
    #[must_use]
    pub fn new(setup_ns: u64, transfer_ns: u64, unit: u64) -> AffineClock {
        assert!(unit > 0, "a unit has bytes");
        AffineClock {
            setup_ns,
            transfer_ns,
            unit,
            free_ns: 0,
        }
    }

    /// Returns the time of one access of `bytes` bytes, in nanoseconds.
    #[must_use]
    pub fn cost_ns(&self, bytes: u64) -> u64 {
        let transfer = (u128::from(bytes) * u128::from(self.transfer_ns)).div_ceil(u128::from(self.unit));
        self.setup_ns + u64::try_from(transfer).expect("an access takes less than five centuries")
    }

    /// Returns the access size in bytes whose transfer takes as long as the setup. This is 1/α,
    /// rounded down.
    ///
    /// # Panics
    /// If the transfer time is zero, because then no such size exists.
    #[must_use]
    pub fn half_bandwidth(&self) -> u64 {
        let size = u128::from(self.setup_ns) * u128::from(self.unit) / u128::from(self.transfer_ns);
        u64::try_from(size).expect("the half-bandwidth size of a device fits a file")
    }
}

impl CostClock for AffineClock {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        self.free_ns = self.free_ns.max(now_ns) + self.cost_ns(access.len);
        Ok(self.free_ns)
    }
}

/// The parallel disk-access machine (PDAM): time is divided into steps, and the device transfers at
/// most P blocks in each step.
///
/// A step has P slots. Reading a block uses one slot, and writing a block uses `write_weight`
/// slots. An access uses the free slots of the step in which it is issued, and then those of later
/// steps. Slots that a step leaves unused are lost. The access completes at the end of the step
/// that transfers its last block.
///
/// Accesses are CREW (concurrent reads, exclusive writes): while a step writes a block, no other
/// access may touch it. Of two conflicting accesses, the second one fails with a [`CostFault`], but
/// those of its blocks that precede the conflict still use their slots.
///
/// ```
/// use alluvium_base::cost::{DeviceAccess, AccessKind, CostClock};
/// use alluvium_model::PdamClock;
/// let mut ssd = PdamClock::new(2, 4096, 100);
/// let read = |block: u64| DeviceAccess { file: 0, offset: block * 4096, len: 4096, kind: AccessKind::Read };
/// assert_eq!(ssd.charge(0, &read(1)), Ok(100));
/// assert_eq!(ssd.charge(0, &read(5)), Ok(100));
/// assert_eq!(ssd.charge(0, &read(3)), Ok(200)); // the step was full
/// ```
#[derive(Clone, Debug)]
pub struct PdamClock {
    slots: u64,
    block: u64,
    step_ns: u64,
    write_weight: u64,
    /// Number of the step whose slots are in use. All earlier steps are full or past.
    step: u64,
    used: u64,
    /// The blocks that this step transfers, by file and block number, and the kind of access.
    moving: HashMap<(u64, u64), AccessKind>,
}

impl PdamClock {
    /// Creates a device that transfers `slots` blocks of `block` bytes in each step of `step_ns`
    /// nanoseconds. Reads and writes cost the same.
    ///
    /// # Panics
    /// If any argument is zero.
    #[must_use]
    pub fn new(slots: u64, block: u64, step_ns: u64) -> PdamClock {
        assert!(
            slots > 0 && block > 0 && step_ns > 0,
            "a step has slots, a block has bytes, and both take time"
        );
        PdamClock {
            slots,
            block,
            step_ns,
            write_weight: 1,
            step: 0,
            used: 0,
            moving: HashMap::new(),
        }
    }

    /// Returns the same device, except that writing a block uses `weight` slots.
    ///
    /// # Panics
    /// If `weight` is zero.
    #[must_use]
    pub fn with_write_weight(mut self, weight: u64) -> PdamClock {
        assert!(weight > 0, "a write takes a slot at least");
        self.write_weight = weight;
        self
    }

    /// Returns P, the number of slots of a step.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the length of a step in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    fn enter(&mut self, step: u64) {
        self.step = step;
        self.used = 0;
        self.moving.clear();
    }

    /// Returns whether an access of this kind to the block conflicts with an earlier one in the
    /// current step.
    fn excluded(&self, file: u64, block: u64, kind: AccessKind) -> bool {
        let other = self.moving.get(&(file, block));
        other.is_some_and(|&other| other == AccessKind::Write || kind == AccessKind::Write)
    }
}

impl CostClock for PdamClock {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        let now = now_ns / self.step_ns;
        if now > self.step {
            self.enter(now);
        }
        let weight = match access.kind {
            AccessKind::Read => 1,
            AccessKind::Write => self.write_weight,
        };
        let mut last = now;
        for block in blocks(access, self.block) {
            let mut wanted = weight;
            while wanted > 0 {
                if self.used == self.slots {
                    self.enter(self.step + 1);
                }
                if self.excluded(access.file, block, access.kind) {
                    let file = access.file;
                    return Err(CostFault { file, block });
                }
                let taken = wanted.min(self.slots - self.used);
                self.used += taken;
                wanted -= taken;
            }
            last = self.step;
            // The blocks of one access are distinct, so an access cannot conflict with itself.
            self.moving.insert((access.file, block), access.kind);
        }
        Ok((last + 1) * self.step_ns)
    }
}

/// Returns the block numbers that an access touches.
fn blocks(access: &DeviceAccess, block: u64) -> std::ops::Range<u64> {
    if access.len == 0 {
        return 0..0;
    }
    access.offset / block..(access.offset + access.len).div_ceil(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(kind: AccessKind, block: u64, count: u64) -> DeviceAccess {
        DeviceAccess {
            file: 3,
            offset: block * 512,
            len: count * 512,
            kind,
        }
    }

    fn read(block: u64) -> DeviceAccess {
        access(AccessKind::Read, block, 1)
    }

    fn write(block: u64) -> DeviceAccess {
        access(AccessKind::Write, block, 1)
    }

    #[test]
    fn dam_charges_a_unit_for_every_block_touched_one_after_the_other() {
        let mut dam = DamClock::new(512, 7);
        assert_eq!(dam.charge(0, &read(9)), Ok(7));
        assert_eq!(dam.charge(0, &access(AccessKind::Write, 0, 3)), Ok(28));
        assert_eq!(dam.charge(100, &read(1)), Ok(107), "an idle device banks nothing");
        let nothing = access(AccessKind::Read, 5, 0);
        assert_eq!(dam.charge(100, &nothing), Ok(107));
    }

    #[test]
    fn affine_charges_a_setup_and_every_byte() {
        let mut disk = AffineClock::new(1000, 1, 3);
        let one = DeviceAccess { len: 1, ..read(0) };
        assert_eq!(disk.cost_ns(0), 1000);
        assert_eq!(
            disk.charge(50, &one),
            Ok(1051),
            "a third of a nanosecond counts as one"
        );
        assert_eq!(disk.charge(60, &DeviceAccess { len: 3000, ..one }), Ok(3051));
        assert_eq!(disk.half_bandwidth(), 3000);
    }

    #[test]
    fn p_accesses_in_a_step_cost_one_step_and_one_more_costs_two() {
        for slots in 1..9 {
            let mut ssd = PdamClock::new(slots, 512, 10);
            for block in 0..slots {
                assert_eq!(ssd.charge(3, &read(block)), Ok(10));
            }
            assert_eq!(ssd.charge(3, &read(99)), Ok(20));
        }
    }

    #[test]
    fn one_access_of_many_blocks_uses_the_slots_side_by_side() {
        let mut ssd = PdamClock::new(4, 512, 10);
        assert_eq!(ssd.charge(0, &access(AccessKind::Read, 0, 4)), Ok(10));
        assert_eq!(ssd.charge(0, &access(AccessKind::Read, 10, 9)), Ok(40));
        assert_eq!(
            ssd.charge(0, &read(50)),
            Ok(40),
            "three slots were left in that step"
        );
        let nothing = access(AccessKind::Read, 0, 0);
        assert_eq!(PdamClock::new(4, 512, 10).charge(0, &nothing), Ok(10));
    }

    #[test]
    fn slots_of_an_idle_step_are_not_banked() {
        let mut ssd = PdamClock::new(2, 512, 10);
        assert_eq!(ssd.charge(0, &read(0)), Ok(10));
        assert_eq!(ssd.charge(95, &access(AccessKind::Read, 8, 3)), Ok(110));
    }

    #[test]
    fn a_write_takes_its_weight_in_slots() {
        let mut ssd = PdamClock::new(4, 512, 10).with_write_weight(3);
        assert_eq!(ssd.charge(0, &write(0)), Ok(10));
        assert_eq!(ssd.charge(0, &read(1)), Ok(10));
        assert_eq!(ssd.charge(10, &write(2)), Ok(20));
        assert_eq!(
            ssd.charge(10, &write(3)),
            Ok(30),
            "one slot in this step, two in the next"
        );
        assert_eq!(ssd.charge(10, &access(AccessKind::Read, 10, 2)), Ok(30));
        let mut narrow = PdamClock::new(2, 512, 10).with_write_weight(5);
        assert_eq!(narrow.charge(0, &write(0)), Ok(30));
    }

    #[test]
    fn a_write_excludes_every_other_access_to_its_block_in_its_step() {
        let fault = Err(CostFault { file: 3, block: 5 });
        for (first, second) in [(read(5), write(5)), (write(5), read(5)), (write(5), write(5))] {
            let mut ssd = PdamClock::new(8, 512, 10);
            assert_eq!(ssd.charge(0, &first), Ok(10));
            assert_eq!(ssd.charge(0, &second), fault);
            let mut later = PdamClock::new(8, 512, 10);
            assert_eq!(later.charge(0, &first), Ok(10));
            assert_eq!(
                later.charge(10, &second),
                Ok(20),
                "the next step is another matter"
            );
        }
        let mut readers = PdamClock::new(8, 512, 10);
        assert_eq!(readers.charge(0, &read(5)), Ok(10));
        assert_eq!(readers.charge(0, &read(5)), Ok(10), "reads may meet");
        let elsewhere = DeviceAccess { file: 4, ..write(5) };
        assert_eq!(readers.charge(0, &elsewhere), Ok(10), "files share no block");
    }

    #[test]
    fn a_write_that_runs_into_the_next_step_excludes_readers_there() {
        let mut ssd = PdamClock::new(2, 512, 10).with_write_weight(3);
        assert_eq!(ssd.charge(0, &write(5)), Ok(20));
        assert_eq!(ssd.charge(0, &read(5)), Err(CostFault { file: 3, block: 5 }));
    }
}
