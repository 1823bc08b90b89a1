//! Frames in memory, from any source, in which a request is replaced by its reply.

use alluvium_device::datagrams::DatagramBurst;
use alluvium_hashes::mica::RingResponder;

/// A batch of requests that a port executes together.
pub(super) trait FrameBatch {
    /// Returns the datagram in a frame.
    fn bytes(&self, index: usize) -> &[u8];

    /// Returns the whole buffer of a frame.
    fn buffer(&mut self, index: usize) -> &mut [u8];

    /// Sets the length of the datagram in a frame. Length 0 suppresses the reply.
    fn set_length(&mut self, index: usize, bytes: usize);
}

impl FrameBatch for DatagramBurst {
    fn bytes(&self, index: usize) -> &[u8] {
        DatagramBurst::bytes(self, index)
    }

    fn buffer(&mut self, index: usize) -> &mut [u8] {
        DatagramBurst::buffer(self, index)
    }

    fn set_length(&mut self, index: usize, bytes: usize) {
        DatagramBurst::set_length(self, index, bytes);
    }
}

impl FrameBatch for RingResponder {
    fn bytes(&self, index: usize) -> &[u8] {
        RingResponder::bytes(self, index)
    }

    fn buffer(&mut self, index: usize) -> &mut [u8] {
        self.frame(index).buffer()
    }

    fn set_length(&mut self, index: usize, bytes: usize) {
        self.frame(index).set_length(bytes);
    }
}
