//! Buffers ("frames") that each hold a request and later its reply. They may belong to network
//! datagrams or to in-memory rings.

use alluvium_device::datagrams::DatagramBurst;
use alluvium_hashes::mica::RingResponder;

/// A batch of frames whose requests a port executes together.
pub(super) trait FrameBatch {
    /// Returns the datagram in a frame.
    fn bytes(&self, index: usize) -> &[u8];

    /// Returns a frame's whole buffer, which the reply may fill.
    fn buffer(&mut self, index: usize) -> &mut [u8];

    /// Sets the length of the datagram in a frame. With a length of 0, no reply is sent.
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
