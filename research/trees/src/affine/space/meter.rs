//! Request counts and their cost in the affine model.

/// A read or write request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRequest {
    /// A read of this many bytes.
    Read(u64),
    /// A write of this many bytes.
    Write(u64),
}

/// The number of requests and of their bytes.
///
/// ```
/// use research_trees::affine::{RequestMeter, SpaceRequest};
/// let mut meter = RequestMeter::default();
/// meter.count(SpaceRequest::Read(100));
/// meter.count(SpaceRequest::Write(300));
/// assert_eq!(meter.cost(0.01), 6.0); // two setups, and four hundredths of a hundred bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestMeter {
    /// The number of read requests.
    pub reads: u64,
    /// The number of bytes read.
    pub read_bytes: u64,
    /// The number of write requests.
    pub writes: u64,
    /// The number of bytes written.
    pub written_bytes: u64,
}

impl RequestMeter {
    pub fn count(&mut self, request: SpaceRequest) {
        match request {
            SpaceRequest::Read(bytes) => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            SpaceRequest::Write(bytes) => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
        }
    }

    /// Returns the cost in setups: 1 + αx for each request of x bytes (Definition 2), where α is
    /// the cost of one byte.
    #[must_use]
    pub fn cost(&self, alpha_byte: f64) -> f64 {
        let bytes = self.read_bytes + self.written_bytes;
        (self.reads + self.writes) as f64 + alpha_byte * bytes as f64
    }

    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(&self, before: RequestMeter) -> RequestMeter {
        assert!(
            before.reads <= self.reads && before.writes <= self.writes,
            "counts only grow"
        );
        RequestMeter {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }

    /// Adds the counts of another meter.
    pub fn add(&mut self, other: RequestMeter) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
    }
}
