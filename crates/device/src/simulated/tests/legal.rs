//! Random histories against a naive model. Every image must be a legal outcome for each sector,
//! length and name, and `None`, `All` and `Process` must give exactly the documented states.

use super::*;
use crate::{IoBatch, Ticket};
use std::collections::{BTreeMap, BTreeSet};

const SECTORS: usize = 40;

#[derive(Clone)]
enum Op {
    Write { at: usize, tags: Vec<u32> },
    Grow(usize),
    Truncate(usize),
    Punch(std::ops::Range<usize>),
}

impl Op {
    fn apply(&self, content: &mut Vec<u32>) {
        match self {
            Op::Write { at, tags } => content[*at..at + tags.len()].copy_from_slice(tags),
            Op::Grow(len) => content.resize(content.len().max(*len), 0),
            Op::Truncate(len) => content.truncate(*len),
            Op::Punch(range) => content[range.clone()].fill(0),
        }
    }

    /// Returns a sector's content if only this change survives.
    fn value(&self, sector: usize) -> Option<u32> {
        match self {
            Op::Write { at, tags } => tags.get(sector.checked_sub(*at)?).copied(),
            Op::Grow(_) => None,
            Op::Truncate(len) => (sector >= *len).then_some(0),
            Op::Punch(range) => range.contains(&sector).then_some(0),
        }
    }
}

/// A file in the naive model: one tag per sector.
#[derive(Default)]
struct ModelFile {
    durable: Vec<u32>,
    current: Vec<u32>,
    /// All changes that are not durable, with their numbers.
    pending: Vec<(u64, Op)>,
    /// Requests in flight, each of which is a write, or a sync of the changes below a number.
    flights: Vec<(Ticket, Result<Op, u64>)>,
    completed: u64,
}

impl ModelFile {
    fn complete(&mut self, op: Op) {
        op.apply(&mut self.current);
        self.pending.push((self.completed, op));
        self.completed += 1;
    }

    fn sync(&mut self, below: u64) {
        while self.pending.first().is_some_and(|(number, _)| *number < below) {
            self.pending.remove(0).1.apply(&mut self.durable);
        }
    }

    /// Records which requests are complete.
    fn settle(&mut self) {
        let (complete, open) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition(|(ticket, _)| ticket.is_complete());
        self.flights = open;
        let complete: Vec<(Ticket, Result<Op, u64>)> = complete;
        for (ticket, what) in complete {
            ticket.take_buffers().expect("no fault is planned");
            match what {
                Ok(write) => self.complete(write),
                Err(below) => self.sync(below),
            }
        }
    }

    fn in_flight(&self) -> impl Iterator<Item = &Op> {
        self.flights.iter().filter_map(|(_, what)| what.as_ref().ok())
    }

    fn lengths(&self) -> BTreeSet<usize> {
        let pending = self.pending.iter().filter_map(|(_, op)| match op {
            Op::Grow(len) | Op::Truncate(len) => Some(*len),
            _ => None,
        });
        pending.chain([self.durable.len()]).collect()
    }

    fn values(&self, sector: usize) -> BTreeSet<u32> {
        let pending = self.pending.iter().map(|(_, op)| op).chain(self.in_flight());
        let durable = self.durable.get(sector).copied().unwrap_or(0);
        let lost: BTreeSet<u32> = pending.filter_map(|op| op.value(sector)).collect();
        lost.into_iter().chain([durable]).collect()
    }
}

#[derive(Clone)]
enum NameOp {
    Create(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

impl NameOp {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameOp::Create(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameOp::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            NameOp::Remove(name) => {
                names.remove(name);
            }
        }
    }

    fn touches(&self, name: &str) -> bool {
        match self {
            NameOp::Create(own, _) | NameOp::Remove(own) => own == name,
            NameOp::Rename(from, to, _) => from == name || to == name,
        }
    }

    fn gives(&self, name: &str) -> Option<usize> {
        match self {
            NameOp::Create(own, file) | NameOp::Rename(_, own, file) if own == name => Some(*file),
            _ => None,
        }
    }
}

struct Model {
    directory: SimDirectory,
    rng: fastrand::Rng,
    files: Vec<ModelFile>,
    durable: BTreeMap<String, usize>,
    current: BTreeMap<String, usize>,
    pending: Vec<NameOp>,
    tag: u32,
    /// Number of images with sectors that are neither durable nor current, which shows that the
    /// check is not vacuous.
    between: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        Model {
            directory: shuffled(seed),
            rng: fastrand::Rng::with_seed(seed),
            files: Vec::new(),
            durable: BTreeMap::new(),
            current: BTreeMap::new(),
            pending: Vec::new(),
            tag: 0,
            between: 0,
        }
    }

    fn change_names(&mut self, op: NameOp) {
        op.apply(&mut self.current);
        self.pending.push(op);
    }

    fn any_name(&mut self) -> Option<String> {
        let names: Vec<&String> = self.current.keys().collect();
        (!names.is_empty()).then(|| names[self.rng.usize(..names.len())].clone())
    }

    fn step(&mut self) {
        let Some(name) = self.any_name() else {
            return self.create();
        };
        match self.rng.u8(..20) {
            0 => self.create(),
            1 => self.rename(&name),
            2 => self.remove(&name),
            3 => {
                self.directory.sync().expect("no fault is planned");
                self.pending.clear();
                self.durable = self.current.clone();
            }
            _ => self.step_file(&name),
        }
        for file in &mut self.files {
            file.settle();
        }
    }

    fn create(&mut self) {
        let name = format!("f{}", self.rng.u8(..5));
        let created = self.directory.create(&name, FileOptions::DIRECT);
        assert_eq!(created.is_ok(), !self.current.contains_key(&name));
        if created.is_ok() {
            self.change_names(NameOp::Create(name, self.files.len()));
            self.files.push(ModelFile::default());
        }
    }

    fn rename(&mut self, from: &str) {
        let to = format!("f{}", self.rng.u8(..5));
        self.wait_for_all();
        self.directory.rename(from, &to).expect("it exists");
        let file = self.current[from];
        self.change_names(NameOp::Rename(from.to_owned(), to, file));
    }

    fn remove(&mut self, name: &str) {
        self.wait_for_all();
        self.directory.remove(name).expect("it exists");
        self.change_names(NameOp::Remove(name.to_owned()));
    }

    /// Completes all requests in flight.
    fn wait_for_all(&mut self) {
        while self.directory.finish_next() {}
        for file in &mut self.files {
            file.settle();
        }
    }

    fn step_file(&mut self, name: &str) {
        let device = self.directory.open(name, FileOptions::DIRECT).expect("it exists");
        let id = self.current[name];
        let rng = &mut self.rng;
        let file = &mut self.files[id];
        let len = file.current.len();
        assert_eq!(device.len(), len as u64 * 512);
        let quiet = file.flights.is_empty();
        match rng.u8(..12) {
            0 | 1 => {
                let to = rng.usize(..=SECTORS);
                device.grow(to as u64 * 512).expect("there is room");
                if to > len {
                    file.complete(Op::Grow(to));
                }
            }
            2 if quiet && len > 0 => {
                let to = rng.usize(..len);
                device.truncate(to as u64 * 512).expect("no fault is planned");
                file.complete(Op::Truncate(to));
            }
            3 if quiet && len > 0 => {
                let from = rng.usize(..len);
                let to = rng.usize(from + 1..=len);
                device
                    .punch_hole(from as u64 * 512..to as u64 * 512)
                    .expect("no fault is planned");
                file.complete(Op::Punch(from..to));
            }
            4 => {
                let mut batch = IoBatch::new();
                batch.sync(Purpose::Other);
                let covers = file.completed;
                file.flights.push((device.submit(batch), Err(covers)));
            }
            5..=8 if len > 0 => self.submit_write(&device, id),
            9 => self.wait_for_all(),
            _ => {
                if let Some((ticket, _)) = file.flights.first() {
                    device.poll(ticket);
                }
            }
        }
    }

    fn submit_write(&mut self, device: &Arc<dyn Device>, id: usize) {
        let file = &mut self.files[id];
        let len = file.current.len();
        let at = self.rng.usize(..len);
        let count = self.rng.usize(1..=(len - at).min(12));
        let busy = |op: &Op| (at..at + count).any(|sector| op.value(sector).is_some());
        if file.in_flight().any(busy) {
            return; // Two writes of one sector in flight together have no order.
        }
        let mut buffer = AlignedBuffer::zeroed(count * 512);
        let mut tags = Vec::new();
        for sector in buffer.chunks_mut(512) {
            self.tag += 1;
            tags.push(self.tag);
            for place in sector.chunks_mut(4) {
                place.copy_from_slice(&self.tag.to_le_bytes());
            }
        }
        let mut batch = IoBatch::new();
        batch.write(at as u64 * 512, buffer, Purpose::Other);
        file.flights
            .push((device.submit(batch), Ok(Op::Write { at, tags })));
    }

    fn check(&mut self, seed: u64) {
        for survival in CrashSurvival::ALL {
            let image = self.directory.image(survival, seed);
            let names = names_of(&image);
            self.check_names(survival, &names);
            for (name, id) in &names {
                self.check_file(survival, *id, &tags_of(&image, name));
            }
            if survival == CrashSurvival::Process {
                let lost = image.image(CrashSurvival::None, seed);
                assert_eq!(
                    names_of(&lost),
                    self.durable,
                    "after a kill, then a loss of power"
                );
                for (name, id) in &self.durable.clone() {
                    self.check_file(CrashSurvival::None, *id, &tags_of(&lost, name));
                }
            }
        }
        assert_eq!(
            self.directory.image(CrashSurvival::Random, seed).content_hash(),
            self.directory.image(CrashSurvival::Random, seed).content_hash()
        );
    }

    fn check_names(&self, survival: CrashSurvival, names: &BTreeMap<String, usize>) {
        match survival {
            CrashSurvival::None => assert_eq!(*names, self.durable),
            CrashSurvival::All | CrashSurvival::Process => assert_eq!(*names, self.current),
            CrashSurvival::Random => {
                let mut state = self.durable.clone();
                let is_prefix = *names == state
                    || self.pending.iter().any(|op| {
                        op.apply(&mut state);
                        *names == state
                    });
                assert!(is_prefix, "{names:?} was never the directory");
            }
            CrashSurvival::Reordered => {
                for (name, file) in names {
                    let given = self.pending.iter().any(|op| op.gives(name) == Some(*file));
                    assert!(
                        self.durable.get(name) == Some(file) || given,
                        "{name} was never file {file}"
                    );
                }
                for name in self.durable.keys().filter(|name| !names.contains_key(*name)) {
                    let touched = self.pending.iter().any(|op| op.touches(name));
                    assert!(touched, "{name} was durable and nobody touched it");
                }
            }
        }
    }

    fn check_file(&mut self, survival: CrashSurvival, id: usize, tags: &[u32]) {
        let file = &self.files[id];
        let exactly = match survival {
            CrashSurvival::None => Some(file.durable.clone()),
            CrashSurvival::All => {
                let mut all = file.current.clone();
                file.in_flight().for_each(|op| op.apply(&mut all));
                Some(all)
            }
            CrashSurvival::Process | CrashSurvival::Random | CrashSurvival::Reordered => None,
        };
        if let Some(exactly) = exactly {
            assert_eq!(tags, exactly, "{survival:?} of file {id}");
            return;
        }
        if survival == CrashSurvival::Process {
            assert_eq!(tags.len(), file.current.len());
            for (sector, (tag, current)) in tags.iter().zip(&file.current).enumerate() {
                let flying = file.in_flight().any(|op| op.value(sector) == Some(*tag));
                assert!(
                    tag == current || flying,
                    "sector {sector} of file {id} holds {tag} after a kill"
                );
            }
            return;
        }
        assert!(
            file.lengths().contains(&tags.len()),
            "file {id} never had {} sectors",
            tags.len()
        );
        for (sector, tag) in tags.iter().enumerate() {
            let legal = file.values(sector);
            assert!(
                legal.contains(tag),
                "{survival:?}: sector {sector} of file {id} holds {tag}, not of {legal:?}"
            );
        }
        let mixed = tags.len() == file.current.len() && *tags != file.current && *tags != file.durable;
        self.between += u64::from(mixed);
    }
}

fn names_of(directory: &SimDirectory) -> BTreeMap<String, usize> {
    let world = directory.shared.world.lock();
    world
        .names
        .iter()
        .map(|(name, file)| (name.to_string(), file as usize))
        .collect()
}

/// Returns the tag of each sector. Each sector must be uniform, because sectors never tear.
fn tags_of(directory: &SimDirectory, name: &str) -> Vec<u32> {
    let file = directory.open(name, FileOptions::DIRECT).expect("it exists");
    assert!(file.len().is_multiple_of(512));
    if file.is_empty() {
        return Vec::new();
    }
    let bytes = file
        .read_at(0, file.len() as usize, Purpose::Other)
        .expect("inside the file");
    let tag = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    bytes
        .chunks(512)
        .map(|sector| {
            let first = tag(&sector[..4]);
            assert!(sector.chunks(4).all(|place| tag(place) == first), "a sector tore");
            first
        })
        .collect()
}

#[test]
fn every_image_of_a_random_history_is_a_legal_outcome() {
    let mut between = 0;
    for seed in 0..150 {
        let mut model = Model::new(seed);
        for step in 0..60 {
            model.step();
            if step % 3 == 0 {
                model.check(seed << 32 | step);
            }
        }
        let (all, now) = (model.directory.image(CrashSurvival::All, 0), &model.directory);
        if now.in_flight() == 0 {
            assert_eq!(all.content_hash(), now.content_hash());
        }
        between += model.between;
    }
    assert!(between > 1000, "only {between} images lay between two versions");
}

#[test]
fn an_images_incremental_hash_is_that_of_its_bytes() {
    for seed in 0..20 {
        let mut model = Model::new(seed);
        for _ in 0..40 {
            model.step();
        }
        let mut by_content: BTreeMap<String, u64> = BTreeMap::new();
        let mut by_hash: BTreeMap<u64, String> = BTreeMap::new();
        for image_seed in 0..40 {
            let image = model.directory.image(CrashSurvival::Random, image_seed);
            let names = names_of(&image);
            let content: Vec<_> = names.keys().map(|name| (name, tags_of(&image, name))).collect();
            let content = format!("{content:?}");
            let hash = image.content_hash();
            assert_eq!(
                *by_content.entry(content.clone()).or_insert(hash),
                hash,
                "equal contents, two hashes"
            );
            assert_eq!(
                *by_hash.entry(hash).or_insert(content.clone()),
                content,
                "one hash, two contents"
            );
        }
    }
}
