//! The eviction order: the simplified 2Q of the thesis (section 5.3, listings 5.1 and 5.2).

/// The frame number that stands for "no frame".
const NONE: u32 = u32::MAX;

/// Which of the two queues supplies the next victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// The FIFO queue as long as it has an unpinned frame, as in the thesis. With this policy, once
    /// all frames have been touched twice, each new page is evicted before it can be touched again.
    #[default]
    Fifo,
    /// The FIFO queue as long as it has at least a quarter of all frames, and otherwise the LRU
    /// queue. The quarter is the parameter Kin of the full 2Q.
    Quarter,
}

/// The queue that contains a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    Neither,
    Fifo,
    Lru,
}

#[derive(Clone, Copy, Debug)]
struct QueueNode {
    next: u32,
    previous: u32,
    which: QueueKind,
}

/// The list node of a frame in neither queue.
const NEITHER: QueueNode = QueueNode {
    next: NONE,
    previous: NONE,
    which: QueueKind::Neither,
};

#[derive(Clone, Copy, Debug)]
struct FrameList {
    first: u32,
    last: u32,
    len: usize,
}

const EMPTY: FrameList = FrameList {
    first: NONE,
    last: NONE,
    len: 0,
};

/// Both queues, as linked lists of frame numbers. Every operation takes constant time, except the
/// search for victims.
#[derive(Debug)]
pub(super) struct EvictionQueues {
    /// A quarter of the number of frames, for [`QueuePolicy::Quarter`].
    quarter: usize,
    /// The list nodes of all frames up to the highest one that was ever used.
    nodes: Vec<QueueNode>,
    fifo: FrameList,
    lru: FrameList,
    policy: QueuePolicy,
}

impl EvictionQueues {
    /// Memory of the queues in bytes per frame.
    pub(super) const FRAME_BYTES: usize = size_of::<QueueNode>();

    /// Creates empty queues for `frames` frames. [`QueuePolicy::Quarter`] derives its quarter from
    /// that number.
    pub(super) fn new(frames: usize, policy: QueuePolicy) -> EvictionQueues {
        assert!(frames < NONE as usize, "frames are numbered");
        EvictionQueues {
            quarter: frames / 4,
            nodes: Vec::new(),
            fifo: EMPTY,
            lru: EMPTY,
            policy,
        }
    }

    /// Records a reference to a frame. The first reference appends the frame to the FIFO queue, and
    /// each later one moves it to the end of the LRU queue.
    pub(super) fn touch(&mut self, frame: usize) {
        if frame >= self.nodes.len() {
            self.nodes.resize(frame + 1, NEITHER);
        }
        match self.nodes[frame].which {
            QueueKind::Neither => self.push(frame, QueueKind::Fifo),
            QueueKind::Lru if self.lru.last as usize == frame => {}
            QueueKind::Fifo | QueueKind::Lru => {
                self.remove(frame);
                self.push(frame, QueueKind::Lru);
            }
        }
    }

    /// Removes a frame from its queue, if it is in one.
    pub(super) fn remove(&mut self, frame: usize) {
        let Some(&node) = self.nodes.get(frame) else {
            return;
        };
        let list = match node.which {
            QueueKind::Neither => return,
            QueueKind::Fifo => &mut self.fifo,
            QueueKind::Lru => &mut self.lru,
        };
        assert!(list.len > 0, "a frame in a queue is counted");
        list.len -= 1;
        match node.previous {
            NONE => list.first = node.next,
            previous => self.nodes[previous as usize].next = node.next,
        }
        match node.next {
            NONE => list.last = node.previous,
            next => self.nodes[next as usize].previous = node.previous,
        }
        self.nodes[frame].which = QueueKind::Neither;
    }

    fn push(&mut self, frame: usize, which: QueueKind) {
        assert!(
            self.nodes[frame].which == QueueKind::Neither,
            "a frame is in one queue"
        );
        let list = match which {
            QueueKind::Lru => &mut self.lru,
            QueueKind::Fifo | QueueKind::Neither => &mut self.fifo,
        };
        let previous = std::mem::replace(&mut list.last, frame as u32);
        list.len += 1;
        if previous == NONE {
            list.first = frame as u32;
        } else {
            self.nodes[previous as usize].next = frame as u32;
        }
        self.nodes[frame] = QueueNode {
            next: NONE,
            previous,
            which,
        };
    }

    /// Returns up to `most` frames for which `may` returns true, in eviction order.
    pub(super) fn victims(&self, most: usize, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let lists = match self.policy {
            QueuePolicy::Quarter if self.fifo.len < self.quarter => [self.lru, self.fifo],
            QueuePolicy::Quarter | QueuePolicy::Fifo => [self.fifo, self.lru],
        };
        let mut victims = Vec::new();
        for list in lists {
            let mut at = list.first;
            while at != NONE && victims.len() < most {
                if may(at as usize) {
                    victims.push(at as usize);
                }
                at = self.nodes[at as usize].next;
            }
        }
        victims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(queues: &EvictionQueues) -> Option<usize> {
        queues.victims(1, |_| true).first().copied()
    }

    #[test]
    fn frames_touched_once_go_first_in_their_order() {
        let mut queues = EvictionQueues::new(8, QueuePolicy::Fifo);
        for frame in [3, 1, 2, 1, 0] {
            queues.touch(frame);
        }
        assert_eq!(queues.victims(8, |_| true), [3, 2, 0, 1]);
        assert_eq!(queues.victims(8, |frame| frame != 2), [3, 0, 1]);
        assert_eq!(queues.victims(2, |_| true), [3, 2]);
    }

    #[test]
    fn a_scan_evicts_no_frame_that_was_touched_twice() {
        for policy in [QueuePolicy::Fifo, QueuePolicy::Quarter] {
            let mut queues = EvictionQueues::new(16, policy);
            for frame in (0..8).chain(0..8) {
                queues.touch(frame);
            }
            (8..16).for_each(|frame| queues.touch(frame));
            // Simulate a scan of ten times as many pages as there are frames.
            for _ in 0..160 {
                let frame = victim(&queues).unwrap();
                assert!(frame >= 8, "a hot frame was evicted");
                queues.remove(frame);
                queues.touch(frame);
            }
        }
    }

    #[test]
    fn with_a_quarter_for_new_pages_the_working_set_can_change() {
        let mut queues = EvictionQueues::new(8, QueuePolicy::Quarter);
        for frame in (0..8).chain(0..8) {
            queues.touch(frame);
        }
        let first = victim(&queues).unwrap();
        queues.remove(first);
        queues.touch(first);
        assert_ne!(victim(&queues), Some(first), "it may be touched again first");
        let mut thesis = EvictionQueues::new(8, QueuePolicy::Fifo);
        for frame in (0..8).chain(0..8).chain([]) {
            thesis.touch(frame);
        }
        thesis.remove(0);
        thesis.touch(0);
        assert_eq!(victim(&thesis), Some(0));
    }

    #[test]
    fn the_queues_agree_with_vectors() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut queues = EvictionQueues::new(12, QueuePolicy::Fifo);
        let (mut fifo, mut lru): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let frame = rng.usize(..12);
            let known = fifo.contains(&frame) || lru.contains(&frame);
            fifo.retain(|f| *f != frame);
            lru.retain(|f| *f != frame);
            if rng.u8(..3) == 0 {
                queues.remove(frame);
            } else {
                queues.touch(frame);
                if known { lru.push(frame) } else { fifo.push(frame) }
            }
            assert_eq!(queues.victims(12, |_| true), [fifo.clone(), lru.clone()].concat());
        }
    }
}
