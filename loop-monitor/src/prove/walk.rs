//! The interrupted code's registers and stack: read in the handler, within bounds known before.
#![expect(
    unsafe_code,
    reason = "reads the stack of the code that the signal interrupted"
)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::gate::ThreadState;
use super::slots::STACK_WORDS;
use crate::blocking_rules::Call;

/// Stretches of executable memory that are told apart; programs have some dozens.
const EXECUTABLE_MAX: usize = 256;
/// Words above the stack pointer among which a caller without a frame is looked for.
const FRAMELESS_WORDS: usize = 64;
/// A chain of frame pointers that is shorter ends somewhere in the middle: code without them.
const CHAIN_MIN: usize = 16;
/// Words that are looked at where the chain is that short.
const CHAINLESS_WORDS: usize = 2_048;
/// Frames that tell a place, more than are kept: what called all that was kept may be what excuses
/// it.
const FRAMES_MAX: usize = 512;

static EXECUTABLE: [[AtomicU64; 2]; EXECUTABLE_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; EXECUTABLE_MAX];
static EXECUTABLE_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Learns where code is, outside of any handler. Later libraries are learnt with the next thread.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of procfs, in memory, read once per thread while calls pass"
)]
pub(super) fn learn_executable_memory() {
    // Without it no place is told from another by its callers; captures have their stacks still.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut length = 0;
    for [low, high] in maps.lines().filter_map(executable_range) {
        if length > 0 && EXECUTABLE[length - 1][1].load(Relaxed) == low {
            EXECUTABLE[length - 1][1].store(high, Relaxed);
        } else if length < EXECUTABLE_MAX {
            EXECUTABLE[length][0].store(low, Relaxed);
            EXECUTABLE[length][1].store(high, Relaxed);
            length += 1;
        }
    }
    EXECUTABLE_LENGTH.store(length, Relaxed);
}

/// `7f0000000000-7f0000001000 r-xp …`.
fn executable_range(line: &str) -> Option<[u64; 2]> {
    let mut fields = line.split(' ');
    let (low, high) = fields.next()?.split_once('-')?;
    let is_executable = fields.next()?.as_bytes().get(2) == Some(&b'x');
    let address = |text| u64::from_str_radix(text, 16).ok();
    is_executable.then_some([address(low)?, address(high)?])
}

fn is_code(address: u64) -> bool {
    let known = &EXECUTABLE[..EXECUTABLE_LENGTH.load(Relaxed).min(EXECUTABLE_MAX)];
    // In the order of their addresses, as the kernel tells them.
    let next = known.partition_point(|range| range[0].load(Relaxed) <= address);
    next.checked_sub(1)
        .is_some_and(|place| address < known[place][1].load(Relaxed))
}

/// Registers at a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    number: u64,
    arguments: [u64; 6],
}

impl Registers {
    pub(super) fn of(context: &libc::ucontext_t) -> Self {
        // The constants are small and positive; registers are bits.
        let get = |register: libc::c_int| context.uc_mcontext.gregs[register as usize] as u64;
        let arguments = [
            libc::REG_RDI,
            libc::REG_RSI,
            libc::REG_RDX,
            libc::REG_R10,
            libc::REG_R8,
            libc::REG_R9,
        ];
        Self {
            ip: get(libc::REG_RIP),
            sp: get(libc::REG_RSP),
            bp: get(libc::REG_RBP),
            number: get(libc::REG_RAX),
            arguments: arguments.map(get),
        }
    }

    pub(super) fn call(&self) -> Call {
        Call {
            number: self.number,
            arguments: self.arguments,
        }
    }
}

/// The stack of the calling thread, if it is on it: a coroutine's own stack has no known bounds,
/// and isn't read.
pub(super) struct ThreadStack {
    low: u64,
    high: u64,
}

impl ThreadStack {
    pub(super) fn of(thread: &ThreadState, registers: &Registers) -> Self {
        let low = thread.stack_low.load(Relaxed);
        let high = thread.stack_high.load(Relaxed);
        if low <= registers.sp && registers.sp < high && registers.sp.is_multiple_of(8) {
            let low = registers.sp;
            Self { low, high }
        } else {
            Self { low: 0, high: 0 }
        }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let inside = self.low <= address && self.high.checked_sub(8)? >= address;
        if !inside || !address.is_multiple_of(8) {
            return None;
        }
        let word = std::ptr::with_exposed_provenance::<u64>(usize::try_from(address).ok()?);
        // SAFETY: aligned, and between the stack pointer and the end of this thread's stack, so
        // mapped, readable, and changed by nobody while its own thread is in this handler.
        // Volatile: it belongs to variables of interrupted code.
        Some(unsafe { word.read_volatile() })
    }

    /// Return addresses by the chain of frame pointers, innermost first.
    fn chain(&self, registers: &Registers) -> impl Iterator<Item = u64> {
        let mut frame = Some(registers.bp);
        std::iter::from_fn(move || {
            let at = frame.take()?;
            let address = self.word(at.wrapping_add(8))?;
            let next = self.word(at)?;
            frame = Some(next).filter(|next| *next > at);
            is_code(address).then_some(address)
        })
        .fuse()
    }

    /// A number for the place from which a scope makes a call, and as many return addresses as
    /// there is room for; returns both numbers.
    ///
    /// A place is excused, or isn't, by the stack of the first call that was made from it. So all
    /// that leads to a call is in its number, and the depth of the stack, too: what runs under
    /// `block_in_place` is never counted with what doesn't. Functions of a C library keep no frame
    /// pointer, so what looks like a return address below the first frame counts, too, and a good
    /// deal further where the chain breaks off.
    pub(super) fn place(
        &self,
        scope: u64,
        call: &Call,
        registers: &Registers,
        returns: &mut [u64],
    ) -> (u64, usize) {
        let mut hash = Hash::default();
        hash.add(scope);
        hash.add(call.number);
        hash.add(registers.ip);
        hash.add(self.high.wrapping_sub(registers.sp));
        let mut length = 0;
        for address in self.chain(registers).take(FRAMES_MAX) {
            hash.add(address);
            if let Some(place) = returns.get_mut(length) {
                *place = address;
            }
            length += 1;
        }
        let (words, end) = if length < CHAIN_MIN {
            (CHAINLESS_WORDS, self.high)
        } else {
            (FRAMELESS_WORDS, registers.bp)
        };
        for word in 0..words {
            let address = registers.sp.wrapping_add(8 * word as u64);
            match self.word(address) {
                Some(word) if address < end => {
                    if is_code(word) {
                        hash.add(word);
                    }
                }
                _ => break,
            }
        }
        (hash.0, length.min(returns.len()))
    }

    /// Copies from the stack pointer on; returns the number of words.
    pub(super) fn copy(&self, registers: &Registers, into: &mut [u64; STACK_WORDS]) -> usize {
        for (length, place) in into.iter_mut().enumerate() {
            match self.word(registers.sp.wrapping_add(8 * length as u64)) {
                Some(word) => *place = word,
                None => return length,
            }
        }
        STACK_WORDS
    }
}

/// A number for all places from which a scope makes this call.
pub(super) fn call_key(scope: u64, call: &Call, registers: &Registers) -> u64 {
    let mut hash = Hash::default();
    for word in [scope, call.number, registers.ip] {
        hash.add(word);
    }
    hash.0
}

/// FNV-1a over words: no table, no state, good enough to tell some hundred places apart.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, word: u64) {
        for byte in word.to_ne_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_code_and_data_is_not() {
        learn_executable_memory();
        assert!(is_code(learn_executable_memory as *const () as u64));
        let data = 7u64;
        assert!(!is_code(&raw const data as u64));
        assert!(!is_code(0));
    }

    #[test]
    fn a_line_of_maps_is_read_or_left_out() {
        let code = "7f00-7f10 r-xp 00000000 00:00 0 /usr/lib/x.so";
        assert_eq!(executable_range(code), Some([0x7f00, 0x7f10]));
        for other in ["7f00-7f10 rw-p 0", "", "7f00 r-xp", "x-y r-xp 0"] {
            assert_eq!(executable_range(other), None, "{other:?}");
        }
    }

    /// The number of a place whose frames return to these offsets into a function.
    fn place_of(returns: &[u64], unused: usize) -> (u64, usize) {
        let code = learn_executable_memory as *const () as u64;
        let mut words = vec![0u64; 2 * returns.len() + 2 + unused];
        let low = words.as_mut_ptr().expose_provenance() as u64;
        for (frame, offset) in returns.iter().enumerate() {
            words[2 * frame] = low + 16 * (frame as u64 + 1);
            words[2 * frame + 1] = code + offset;
        }
        let high = low + 8 * words.len() as u64;
        let registers = Registers {
            ip: code,
            sp: low,
            bp: low,
            number: 0,
            arguments: [0; 6],
        };
        let mut kept = [0; 4];
        let stack = ThreadStack { low, high };
        let place = stack.place(1, &registers.call(), &registers, &mut kept);
        assert_eq!(kept, [code + 1; 4]);
        drop(words);
        place
    }

    #[test]
    fn every_frame_and_the_depth_tell_a_place() {
        learn_executable_memory();
        let same = [1; 60];
        let mut other = same;
        other[59] = 2;
        let place = place_of(&same, 0);
        assert_eq!(place, (place.0, 4));
        assert_eq!(place_of(&same, 0), place);
        assert_ne!(place_of(&other, 0).0, place.0);
        assert_ne!(place_of(&same, 2).0, place.0);
        assert_ne!(place_of(&same[..10], 0).0, place_of(&same[..11], 0).0);
    }

    #[test]
    fn nothing_is_read_outside_of_the_stack() {
        let words = [1u64, 2, 3, 4];
        let low = words.as_ptr().expose_provenance() as u64;
        let stack = ThreadStack {
            low,
            high: low + 32,
        };
        assert_eq!(stack.word(low), Some(1));
        assert_eq!(stack.word(low + 24), Some(4));
        for outside in [0, low - 8, low + 4, low + 32, u64::MAX - 7] {
            assert_eq!(stack.word(outside), None, "{outside:x}");
        }
        let nowhere = ThreadStack { low: 0, high: 0 };
        assert_eq!(nowhere.word(low), None);
    }
}
