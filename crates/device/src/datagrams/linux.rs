//! Linux system calls for batches of datagrams.

use super::DatagramBurst;
use super::trains::{DatagramTrains, ReceivedTrain};
use rustix::net::SocketAddrAny;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::{mem, ptr};

/// Maximum length of a train, plus padding. Without the padding, buffers at multiples of a power of
/// two would share the same sets of the processor's cache.
const TRAIN_BYTES: usize = (64 << 10) + 320;

/// Size of the control message that carries the length of a train's datagrams.
const CONTROL_BYTES: usize = 64;

/// Memory of a control message, aligned as the system requires.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct ControlBuffer([u8; CONTROL_BYTES]);

/// State of a burst that persists between calls.
#[derive(Debug)]
pub(super) struct BurstState {
    /// Receive buffers for trains. Pages that no train has reached use no memory.
    landing: Box<[u8]>,
    arrived: Vec<ReceivedTrain>,
    /// The first train with datagrams that have not been handed out.
    next: usize,
    trains: DatagramTrains,
    /// Whether the network path has refused trains, for example because a datagram is longer than a
    /// packet.
    has_refused: bool,
}

impl BurstState {
    pub(super) fn new(most: usize) -> BurstState {
        BurstState {
            landing: vec![0; most * TRAIN_BYTES].into_boxed_slice(),
            arrived: Vec::with_capacity(most),
            next: 0,
            trains: DatagramTrains::default(),
            has_refused: false,
        }
    }
}

pub(super) fn receive_trains(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    // SAFETY: the option is a number that lives until the call returns. A system without this
    // option refuses it, and datagrams then arrive one by one.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// Message headers and the memory that they point to.
struct MessageHeaders {
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<ControlBuffer>,
    parts: Vec<libc::iovec>,
    all: Vec<libc::mmsghdr>,
}

impl MessageHeaders {
    /// Allocates memory for `most` messages with `parts` parts in total.
    fn new(most: usize, parts: usize) -> MessageHeaders {
        MessageHeaders {
            names: Vec::with_capacity(most),
            controls: Vec::with_capacity(most),
            parts: Vec::with_capacity(parts),
            all: Vec::with_capacity(most),
        }
    }

    /// Adds a part to the next message to be pushed.
    fn push_part(&mut self, bytes: *mut u8, length: usize) {
        // Reallocation would invalidate pointers to parts.
        assert!(self.parts.len() < self.parts.capacity(), "there is space for it");
        self.parts.push(libc::iovec {
            iov_base: bytes.cast(),
            iov_len: length,
        });
    }

    /// Adds a message made of the last `parts` parts, with an address and a control message of the
    /// given length.
    fn push(&mut self, parts: usize, name: (libc::sockaddr_storage, u32), control: (ControlBuffer, usize)) {
        assert!(self.names.len() < self.names.capacity(), "there is space for it");
        assert!(parts <= self.parts.len() && control.1 <= CONTROL_BYTES);
        self.names.push(name.0);
        self.controls.push(control.0);
        // SAFETY: all zeros are a valid, empty header.
        let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
        let (last, first) = (self.names.len() - 1, self.parts.len() - parts);
        header.msg_hdr.msg_name = ptr::from_mut(&mut self.names[last]).cast();
        header.msg_hdr.msg_namelen = name.1;
        header.msg_hdr.msg_iov = self.parts[first..].as_mut_ptr();
        // The lengths have other types with musl.
        header.msg_hdr.msg_iovlen = parts as _;
        if control.1 > 0 {
            header.msg_hdr.msg_control = ptr::from_mut(&mut self.controls[last]).cast();
            header.msg_hdr.msg_controllen = control.1 as _;
        }
        self.all.push(header);
    }
}

const EMPTY: ControlBuffer = ControlBuffer([0; CONTROL_BYTES]);

fn empty_name() -> (libc::sockaddr_storage, u32) {
    // SAFETY: all zeros are an address without a family.
    let name = unsafe { mem::zeroed() };
    (name, size_of::<libc::sockaddr_storage>() as u32)
}

/// Returns the system's representation of an address, and its length.
fn name_of(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
    let (mut name, _) = empty_name();
    let any = SocketAddrAny::from(address);
    // SAFETY: a network address is no longer than the storage, which holds any address.
    unsafe {
        ptr::copy_nonoverlapping(
            any.as_ptr().cast::<u8>(),
            ptr::from_mut(&mut name).cast::<u8>(),
            any.addr_len() as usize,
        );
    }
    (name, any.addr_len())
}

fn address_of(name: &libc::sockaddr_storage, length: u32) -> Option<SocketAddr> {
    if (length as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the system has written `length` bytes of an address there, including its family.
    let any = unsafe { SocketAddrAny::read(ptr::from_ref(name).cast(), length) };
    SocketAddr::try_from(any).ok()
}

/// Returns the control message that carries the length of a train's datagrams, and its own length.
fn length_of_each(each: usize) -> (ControlBuffer, usize) {
    let each = u16::try_from(each).expect("a train is shorter than that");
    let mut control = EMPTY;
    // SAFETY: the header and the two bytes after it fit into the memory, which is suitably aligned.
    unsafe {
        let header = control.0.as_mut_ptr().cast::<libc::cmsghdr>();
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(each);
    }
    // SAFETY: this only computes a length.
    (control, unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) }
        as usize)
}

/// Returns the size of each datagram in a received train, or 0 if a single datagram was received.
fn segment_length(header: &libc::msghdr) -> usize {
    // SAFETY: the system has written whole control messages to the memory named in the header, and
    // their length to the header.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_UDP && (*message).cmsg_type == libc::UDP_GRO {
                let each = libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(each).unwrap_or(0);
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    0
}

pub(super) fn receive(burst: &mut DatagramBurst, socket: &UdpSocket) -> io::Result<usize> {
    let state = &mut burst.system;
    if state.next == state.arrived.len() {
        land(state, burst.lengths.len(), socket)?;
    }
    let mut count = 0;
    while count < burst.lengths.len()
        && let Some(train) = state.arrived.get_mut(state.next)
    {
        let Some(place) = train.next() else {
            state.next += 1;
            continue;
        };
        let train_at = state.next * TRAIN_BYTES;
        let length = place.len().min(burst.most_bytes);
        let from = &state.landing[train_at + place.start..][..length];
        burst.bytes[count * burst.most_bytes..][..length].copy_from_slice(from);
        burst.lengths[count] = length;
        burst.addresses[count] = train.address;
        count += 1;
    }
    // The rest of the last train may be empty, in which case the next call must wait.
    while state.arrived.get(state.next).is_some_and(|train| train.is_done()) {
        state.next += 1;
    }
    Ok(count)
}

/// Waits for trains, and receives those that have arrived.
fn land(state: &mut BurstState, most: usize, socket: &UdpSocket) -> io::Result<()> {
    let mut headers = MessageHeaders::new(most, most);
    for bytes in state.landing.chunks_exact_mut(TRAIN_BYTES) {
        headers.push_part(bytes.as_mut_ptr(), bytes.len());
        headers.push(1, empty_name(), (EMPTY, CONTROL_BYTES));
    }
    // SAFETY: each header points to a name, a part and a control message, which live until the call
    // returns. The burst owns the memory of the part.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.all.as_mut_ptr(),
            most as u32,
            libc::MSG_WAITFORONE as _,
            ptr::null_mut(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    state.arrived.clear();
    state.next = 0;
    for (header, name) in headers.all.iter().zip(&headers.names).take(count) {
        let address = address_of(name, header.msg_hdr.msg_namelen);
        let bytes = (header.msg_len as usize).min(TRAIN_BYTES);
        state.arrived.push(ReceivedTrain::new(
            address,
            bytes,
            segment_length(&header.msg_hdr),
        ));
    }
    Ok(())
}

pub(super) fn send(burst: &mut DatagramBurst, socket: &UdpSocket, count: usize) -> io::Result<()> {
    let mut trains = mem::take(&mut burst.system.trains);
    trains.couple(&burst.lengths[..count], &burst.addresses[..count]);
    if burst.system.has_refused {
        trains.uncouple();
    }
    let sent = send_trains(burst, socket, count, &trains.all().collect::<Vec<_>>());
    burst.system.trains = trains;
    sent
}

/// Sends the first `count` datagrams as trains.
fn send_trains(
    burst: &mut DatagramBurst,
    socket: &UdpSocket,
    count: usize,
    trains: &[&[usize]],
) -> io::Result<()> {
    let mut headers = MessageHeaders::new(count, count);
    for train in trains {
        let first = train[0];
        let address = burst.addresses[first].expect("what travels has a destination");
        for &at in *train {
            let bytes = burst.bytes(at);
            // The system only reads the memory to be sent.
            headers.push_part(bytes.as_ptr().cast_mut(), bytes.len());
        }
        let control = match train.len() {
            1 => (EMPTY, 0),
            _ => length_of_each(burst.lengths[first]),
        };
        headers.push(train.len(), name_of(address), control);
    }
    let mut next = 0;
    while next < headers.all.len() {
        let rest = &mut headers.all[next..];
        // SAFETY: each header points to a name, parts and perhaps a control message, which live
        // until the call returns. The burst owns the memory of the parts.
        let done = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
        if let Ok(done) = usize::try_from(done) {
            next += done.max(1);
            continue;
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            continue;
        }
        if trains[next].len() > 1 {
            // The system may have refused the train rather than its datagrams.
            burst.system.has_refused = true;
            let alone: Vec<&[usize]> = trains[next..].iter().flat_map(|train| train.chunks(1)).collect();
            return send_trains(burst, socket, count, &alone);
        }
        // This message is lost, but later ones may have other destinations.
        next += 1;
        if next == headers.all.len() {
            return Err(error);
        }
    }
    Ok(())
}
