//! Where the signal handler leaves what it saw: memory that is there before the first signal.
//!
//! A place that can block is captured once, with a copy of its stack, and counted from then on;
//! so a hot path costs a walk and a look-up. The copies are read on an ordinary thread, when
//! somebody wants a certificate.
#![expect(
    unsafe_code,
    reason = "a signal handler fills memory that other threads read later"
)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::scope::Scope;
use crate::cause::CauseClass;

/// Places that are told apart in one process at one time. Beyond, calls are counted without.
pub(super) const SLOTS_MAX: usize = 1_024;
/// Places that one scope tells apart. Code without frame pointers leaves words on the stack that make
/// one place look like many; one route's must not take the slots of all.
pub(super) const PLACES_OF_SCOPE_MAX: u64 = 128;
/// Words of stack that are copied: 128 KiB. A blocking HTTP client built without optimisation puts
/// more than 32 KiB between its socket and its caller.
pub(super) const STACK_WORDS: usize = 16_384;
/// Return addresses found by frame pointers.
pub(super) const RETURNS_MAX: usize = 48;
/// Longest path or address that is kept whole.
pub(super) const SUBJECT_BYTES: usize = 256;

/// What a call was about, in the bytes that the handler could get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectKind {
    Nothing,
    /// A path from the program's memory.
    Path,
    /// What `/proc/self/fd/N` points at.
    Link,
    /// A socket address.
    Address,
}

/// One captured call.
pub(super) struct Captured {
    pub(super) class: CauseClass,
    pub(super) number: u64,
    /// Counts calls from several places, of which this is one: nothing excuses them all.
    pub(super) is_of_many: bool,
    pub(super) arguments: [u64; 6],
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    pub(super) returns: [u64; RETURNS_MAX],
    pub(super) returns_length: usize,
    pub(super) subject: [u8; SUBJECT_BYTES],
    pub(super) subject_length: usize,
    pub(super) subject_kind: SubjectKind,
    pub(super) stack: [u64; STACK_WORDS],
    /// In words.
    pub(super) stack_length: usize,
}

struct Slot {
    /// The scope's number; nobody's between its freeing and the next claim.
    owner: AtomicU64,
    count: AtomicU64,
    /// The capture is complete: it won't be written until the slot is freed.
    is_ready: AtomicBool,
    captured: UnsafeCell<Captured>,
}

// SAFETY: `captured` is written only by the one handler that took the slot by exchanging its key
// from 0, and read only by a reader that borrows the scope which owns the slot. A scope's slots
// are freed when it is dropped: neither its handlers (which run inside a guard that borrows it) nor
// its readers are left then. A reader of another scope may look at a slot meanwhile. It loads the
// owner first, with acquire: an owner that is its own scope was stored, with release, by a handler
// that had taken the slot after it was freed, so that `is_ready`, loaded after it, is no older than
// the `false` of that freeing, and `true` only once the new capture is complete.
unsafe impl Sync for Slot {}

impl Slot {
    const fn new() -> Self {
        Self {
            owner: AtomicU64::new(0),
            count: AtomicU64::new(0),
            is_ready: AtomicBool::new(false),
            captured: UnsafeCell::new(Captured {
                class: CauseClass::Io,
                number: 0,
                is_of_many: false,
                arguments: [0; 6],
                ip: 0,
                sp: 0,
                bp: 0,
                returns: [0; RETURNS_MAX],
                returns_length: 0,
                subject: [0; SUBJECT_BYTES],
                subject_length: 0,
                subject_kind: SubjectKind::Nothing,
                stack: [0; STACK_WORDS],
                stack_length: 0,
            }),
        }
    }
}

/// Zeroes, so that untouched slots have no memory.
static SLOTS: [Slot; SLOTS_MAX] = [const { Slot::new() }; SLOTS_MAX];
/// What the place of each slot is told by; 0 is free. Apart from the slots, which lie pages apart,
/// so that a look-up stays in the cache.
static KEYS: [AtomicU64; SLOTS_MAX] = [const { AtomicU64::new(0) }; SLOTS_MAX];
/// Slots that were ever taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Counts a call of the place `key`, which belongs to one scope; `capture` fills a slot the first
/// time. Beyond [`PLACES_OF_SCOPE_MAX`] it is counted as of `call_key`, with all calls of its kind.
/// Safe in a signal handler if `capture` is. `false` when there is no slot left.
pub(super) fn count(
    scope: &Scope,
    (key, call_key): (u64, u64),
    capture: impl FnOnce(&mut Captured),
) -> bool {
    let key = key.max(1);
    if is_counted(key) {
        return true;
    }
    if scope.places.fetch_add(1, Ordering::Relaxed) < PLACES_OF_SCOPE_MAX {
        return claim(scope, key, capture);
    }
    scope.crowded.fetch_add(1, Ordering::Relaxed);
    let call_key = call_key.max(1);
    is_counted(call_key)
        || claim(scope, call_key, |captured| {
            capture(captured);
            captured.is_of_many = true;
        })
}

/// Counts a call whose key has a slot.
fn is_counted(key: u64) -> bool {
    let taken = TAKEN.load(Ordering::Acquire);
    let known = KEYS[..taken]
        .iter()
        .position(|known| known.load(Ordering::Relaxed) == key);
    if let Some(place) = known {
        // A key holds its scope's number, and the scope is borrowed: the slot isn't freed.
        SLOTS[place].count.fetch_add(1, Ordering::Relaxed);
    }
    known.is_some()
}

/// Takes a free slot and counts its first call.
fn claim(scope: &Scope, key: u64, capture: impl FnOnce(&mut Captured)) -> bool {
    for (place, known) in KEYS.iter().enumerate() {
        let take = known.compare_exchange(0, key, Ordering::Acquire, Ordering::Relaxed);
        if take.is_ok() {
            let slot = &SLOTS[place];
            TAKEN.fetch_max(place + 1, Ordering::AcqRel);
            slot.owner.store(scope.id, Ordering::Release);
            // Added, not stored: others of the same place may have counted since the exchange.
            slot.count.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the exchange made this handler the slot's only writer, and nobody reads
            // before it is ready; see the argument at `Sync`.
            capture(unsafe { &mut *slot.captured.get() });
            slot.is_ready.store(true, Ordering::Release);
            return true;
        }
    }
    false
}

/// Everything captured for a scope, with its count.
pub(super) fn of_scope(scope: &Scope) -> Vec<(&Captured, u64)> {
    let ready = SLOTS[..TAKEN.load(Ordering::Acquire)]
        .iter()
        .filter(|slot| slot.owner.load(Ordering::Acquire) == scope.id)
        .filter(|slot| slot.is_ready.load(Ordering::Acquire));
    ready
        .map(|slot| {
            // SAFETY: it was ready, so nobody writes until it is freed, and only the drop of the
            // scope, which the result borrows, frees it.
            let captured = unsafe { &*slot.captured.get() };
            (captured, slot.count.load(Ordering::Relaxed))
        })
        .collect()
}

/// Gives a scope's slots back; for its drop, when nobody borrows it any more.
pub(super) fn free(scope: u64) {
    let taken = TAKEN.load(Ordering::Acquire);
    for (slot, key) in SLOTS[..taken].iter().zip(&KEYS) {
        if slot.owner.load(Ordering::Relaxed) == scope {
            slot.is_ready.store(false, Ordering::Relaxed);
            slot.owner.store(0, Ordering::Relaxed);
            slot.count.store(0, Ordering::Relaxed);
            key.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys as good as unique: other tests of this process have slots, too.
    fn key(scope: &Scope, place: u64) -> u64 {
        0xfeed_0000_0000_0000 | scope.id << 16 | place
    }

    #[test]
    fn a_place_is_captured_once_and_counted_until_its_scope_is_gone() {
        let scope = Scope::default();
        for call in 0..3 {
            let keys = (key(&scope, 1), 0);
            let counted = count(&scope, keys, |captured| captured.number = call);
            assert!(counted);
        }
        let keys = (key(&scope, 2), 0);
        assert!(count(&scope, keys, |captured| captured.number = 9));
        let mut seen: Vec<_> = of_scope(&scope)
            .into_iter()
            .map(|(captured, count)| (captured.number, count))
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 3), (9, 1)]);
        let other = Scope::default();
        assert!(of_scope(&other).is_empty());
        let id = scope.id;
        drop(scope);
        assert!(
            SLOTS
                .iter()
                .all(|slot| slot.owner.load(Ordering::Relaxed) != id)
        );
    }

    #[test]
    fn a_scope_of_many_places_counts_the_rest_together() {
        let scope = Scope::default();
        let calls = PLACES_OF_SCOPE_MAX + 5;
        for place in 1..=calls {
            let keys = (key(&scope, place), key(&scope, 0));
            assert!(count(&scope, keys, |captured| captured.is_of_many = false));
        }
        let seen = of_scope(&scope);
        let of_many: Vec<u64> = seen
            .iter()
            .filter(|(captured, _)| captured.is_of_many)
            .map(|(_, count)| *count)
            .collect();
        assert_eq!(of_many, [5]);
        assert_eq!(seen.len() as u64, PLACES_OF_SCOPE_MAX + 1);
        assert_eq!(scope.crowded.load(Ordering::Relaxed), 5);
    }
}
