//! What is kept of a command's output: its head and its tail, however much there is between.

use std::collections::VecDeque;

use crate::ports::runtimes::CapturedOutput;

/// Takes a stream in and keeps both of its ends.
#[derive(Debug)]
pub(super) struct OutputKeeper {
    head: Vec<u8>,
    head_bytes_max: usize,
    tail: VecDeque<u8>,
    tail_bytes_max: usize,
    omitted_bytes: u64,
}

impl OutputKeeper {
    /// Keeps `bytes_max` in all, half of each end.
    pub(super) fn new(bytes_max: usize) -> Self {
        let head_bytes_max = bytes_max.div_ceil(2);
        Self {
            head: Vec::new(),
            head_bytes_max,
            tail: VecDeque::new(),
            tail_bytes_max: bytes_max - head_bytes_max,
            omitted_bytes: 0,
        }
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.head_bytes_max - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Of a piece longer than the tail, its end alone stays.
        let (passing, staying) = rest.split_at(rest.len().saturating_sub(self.tail_bytes_max));
        let too_many = (self.tail.len() + staying.len()).saturating_sub(self.tail_bytes_max);
        self.tail.drain(..too_many);
        self.tail.extend(staying);
        self.omitted_bytes += (passing.len() + too_many) as u64;
    }

    /// What was kept.
    pub(super) fn finish(self) -> CapturedOutput {
        CapturedOutput {
            head: self.head,
            tail: self.tail.into(),
            omitted_bytes: self.omitted_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ends_stay_however_the_stream_is_cut(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
            bytes_max in 0_usize..100,
        ) {
            let mut keeper = OutputKeeper::new(bytes_max);
            for piece in &pieces {
                keeper.push(piece);
            }
            let whole = pieces.concat();
            let kept = keeper.finish();
            let kept_bytes = kept.head.len() + kept.tail.len();
            prop_assert!(kept_bytes <= bytes_max);
            prop_assert_eq!(kept_bytes as u64 + kept.omitted_bytes, whole.len() as u64);
            prop_assert!(whole.starts_with(&kept.head));
            prop_assert!(whole.ends_with(&kept.tail));
            prop_assert_eq!(kept.is_truncated(), whole.len() > bytes_max);
        }
    }
}
