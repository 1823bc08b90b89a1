//! Requests in memory that become their replies, wherever they came from.

use alluvium_device::datagrams::Burst;
use alluvium_hashes::mica::Answerer;

/// Requests that a port executes together.
pub(super) trait Frames {
    /// Returns what is in a frame.
    fn bytes(&self, index: usize) -> &[u8];

    /// Returns all memory of a frame.
    fn buffer(&mut self, index: usize) -> &mut [u8];

    /// Sets how long what is in a frame is. Of no bytes there is no reply.
    fn set_length(&mut self, index: usize, bytes: usize);
}

impl Frames for Burst {
    fn bytes(&self, index: usize) -> &[u8] {
        Burst::bytes(self, index)
    }

    fn buffer(&mut self, index: usize) -> &mut [u8] {
        Burst::buffer(self, index)
    }

    fn set_length(&mut self, index: usize, bytes: usize) {
        Burst::set_length(self, index, bytes);
    }
}

impl Frames for Answerer {
    fn bytes(&self, index: usize) -> &[u8] {
        Answerer::bytes(self, index)
    }

    fn buffer(&mut self, index: usize) -> &mut [u8] {
        self.frame(index).buffer()
    }

    fn set_length(&mut self, index: usize, bytes: usize) {
        self.frame(index).set_length(bytes);
    }
}
