//! From a copy of a stack to its functions.
//!
//! `/proc` tells a waiting thread's stack and instruction pointers, but not its frame pointer.
//! Unwind tables get by without it until they meet a function that needs it. There the function's
//! own beginning tells how far above the stack pointer it is (`prologue.rs`); where that doesn't tell,
//! it is found as the lowest place above the stack pointer that looks like a frame (a saved frame
//! pointer further up, and a return address behind a call instruction) and whose chain goes on like
//! that.

use std::fmt;

use framehop::{FrameAddress, Unwinder};

use super::address_space::AddressSpace;
use super::prologue;
use super::symbols::Symbols;
use super::unwind_tables::UnwindTables;
use super::{ProcessError, ProcessView};
use crate::cause::Frame;

/// How much of a stack is copied: room for some hundred frames.
pub const STACK_COPY_BYTES: usize = 64 * 1024;
/// More frames than this are a recursion, of which the innermost ones tell enough.
const FRAMES_MAX: usize = 256;
/// Frames are rarely larger; a chain with larger ones isn't believed.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// A function that jumps on to another one is searched for the jump so far.
const TAIL_CALL_BYTES_MAX: usize = 1_024;
/// Places that look like a frame and are weighed against each other.
const CANDIDATES_MAX: usize = 16;
/// Links of the chain that must hold before a frame pointer is believed.
const LINKS_WANTED: usize = 3;
/// Below, nobody maps anything (`vm.mmap_min_addr`): a stack's outermost return address is 0.
const LOWEST_CODE: u64 = 0x1_0000;
/// Stands for an unknown frame pointer: not an address of any process.
const UNKNOWN: u64 = 0xdead_beef_0000_0000;

/// Where a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, where it is known.
    pub bp: Option<u64>,
}

/// Part of a stack, as it was once.
#[derive(Clone, PartialEq, Eq)]
pub struct StackCopy {
    /// The address of the first byte; at or below the stack pointer.
    pub start: u64,
    /// The bytes from there upwards.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for StackCopy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is on a stack may be secret, and is long.
        write!(
            formatter,
            "{} bytes from {:#x}",
            self.bytes.len(),
            self.start
        )
    }
}

impl StackCopy {
    /// Copies from `sp` upwards, as far as the stack goes; empty when nothing can be read.
    #[must_use]
    pub fn take(view: &ProcessView, sp: u64) -> Self {
        let mut bytes = vec![0; STACK_COPY_BYTES];
        // A stack that can't be read gives no frames, and the call still has its name.
        let length = view.read_memory(sp, &mut bytes).unwrap_or(0);
        bytes.truncate(length);
        Self { start: sp, bytes }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// Unwinds and resolves the stacks of one process.
pub struct Stacks {
    view: ProcessView,
    space: AddressSpace,
    tables: UnwindTables,
    symbols: Symbols,
}

impl fmt::Debug for Stacks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stacks")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Stacks {
    /// For one process. Unwind tables and symbols are read when a stack first leads to them.
    ///
    /// # Errors
    /// When it has ended or may not be read.
    pub fn new(view: &ProcessView) -> Result<Self, ProcessError> {
        Ok(Self {
            view: view.clone(),
            space: AddressSpace::read(view)?,
            tables: UnwindTables::default(),
            symbols: Symbols::new(view),
        })
    }

    /// The functions on a stack, innermost first, those that the compiler inlined included.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn frames(
        &mut self,
        registers: Registers,
        stack: &StackCopy,
    ) -> Result<Vec<Frame>, ProcessError> {
        let addresses = self.unwind(registers, stack)?;
        Ok(self.frames_at(&addresses))
    }

    /// Addresses as [`Stacks::unwind`] gives them, resolved.
    pub fn frames_at(&mut self, addresses: &[u64]) -> Vec<Frame> {
        self.symbols.frames(&self.space, addresses)
    }

    /// One address for each function on the stack, innermost first; of callers an address within
    /// the call instruction, so that it belongs to the line that called.
    ///
    /// # Errors
    /// When the process has ended or may not be read.
    pub fn unwind(
        &mut self,
        registers: Registers,
        stack: &StackCopy,
    ) -> Result<Vec<u64>, ProcessError> {
        let mut map_is_new = false;
        self.is_code(registers.ip, &mut map_is_new)?;
        // What the cache learns while the frame pointer is unknown may be wrong: one per stack.
        let mut cache = framehop::CacheNative::<framehop::MayAllocateDuringUnwind>::new();
        let bp = registers.bp.unwrap_or(UNKNOWN);
        let mut unwound = native_registers(registers.ip, registers.sp, bp);
        let mut at = FrameAddress::from_instruction_pointer(registers.ip);
        let mut addresses = Vec::new();
        while addresses.len() < FRAMES_MAX {
            addresses.push(at.address_for_lookup());
            self.tables
                .prepare(&self.view, &self.space, at.address_for_lookup());
            let before = unwound;
            let mut read = |address| stack.word(address).ok_or(());
            let mut next =
                self.tables
                    .unwinder
                    .unwind_frame(at, &mut unwound, &mut cache, &mut read);
            if next.is_err()
                && before.bp() == UNKNOWN
                && let Some(found) =
                    self.find_frame_pointer(at.address_for_lookup(), before.sp(), stack)
            {
                unwound = native_registers(before.ip(), before.sp(), found);
                cache = framehop::CacheNative::new();
                next = self
                    .tables
                    .unwinder
                    .unwind_frame(at, &mut unwound, &mut cache, &mut read);
            }
            // An error is where the tables, or the copy, end: what was found stands.
            let Some(address) = next.ok().flatten() else {
                break;
            };
            if !self.is_code(address, &mut map_is_new)? {
                break;
            }
            // A stack only grows one way; anything else would go round for ever.
            if unwound.sp() <= before.sp() {
                break;
            }
            let Some(next) = FrameAddress::from_return_address(address) else {
                break;
            };
            at = next;
        }
        Ok(addresses)
    }

    /// Whether code is there, also when it was loaded since the map was read; that is asked once
    /// per stack.
    fn is_code(&mut self, address: u64, map_is_new: &mut bool) -> Result<bool, ProcessError> {
        let is_known = self.space.find(address).is_some();
        if !is_known && !*map_is_new && address >= LOWEST_CODE {
            *map_is_new = true;
            self.space = AddressSpace::read(&self.view)?;
            self.symbols.forget();
        }
        Ok(self.space.is_code(address))
    }

    /// Where the frame pointer is of the function at `ip`, which needs it.
    fn find_frame_pointer(&mut self, ip: u64, sp: u64, stack: &StackCopy) -> Option<u64> {
        let function = self.symbols.function_start(&self.space, ip);
        self.frame_by_beginning(ip, function, sp, stack)
            .or_else(|| self.frame_by_chain(function, sp, stack))
    }

    /// By how its function begins, if what is there was called for it.
    fn frame_by_beginning(
        &mut self,
        ip: u64,
        function: Option<u64>,
        sp: u64,
        stack: &StackCopy,
    ) -> Option<u64> {
        let bytes = self.frame_bytes(ip, function)?;
        let at = sp.checked_add(bytes)?;
        let back = stack.word(at.checked_add(8)?)?;
        if !self.space.is_code(back) || !self.follows_call(back) {
            return None;
        }
        let was_for_another = match (self.call_target(back), function) {
            (Some(target), Some(function)) => !self.leads_to(target, function),
            // Through a pointer it may have been for anybody.
            _ => false,
        };
        (!was_for_another).then_some(at)
    }

    /// Without a symbol the function begins somewhere before `ip`, in the same file.
    fn frame_bytes(&self, ip: u64, function: Option<u64>) -> Option<u64> {
        let start = match function {
            Some(function) => function,
            None => self.space.find(ip)?.start,
        };
        let start = start.max(ip.saturating_sub(prologue::BODY_BYTES_MAX as u64));
        let mut code = vec![0; usize::try_from(ip.checked_sub(start)?).ok()?];
        // What isn't mapped any more tells nothing.
        let length = self.view.read_memory(start, &mut code).ok()?;
        prologue::frame_bytes(&code[..length])
    }

    /// The lowest frame at or above `sp` whose chain holds, and that was called for `function`. Below
    /// a function's frame lie its locals, and in them remains of earlier calls, whose chain holds
    /// just as well; but they called something else.
    fn frame_by_chain(&mut self, function: Option<u64>, sp: u64, stack: &StackCopy) -> Option<u64> {
        let mut lowest = None;
        let mut lowest_indirect = None;
        let mut candidates = 0;
        // A stack pointer is the program's to set, to anything.
        let mut at = sp.checked_next_multiple_of(8)?;
        while at.checked_add(16).is_some_and(|end| end <= stack.end())
            && candidates < CANDIDATES_MAX
        {
            if let Some(back) = stack.word(at + 8)
                && self.chain_holds(at, stack)
            {
                candidates += 1;
                lowest = lowest.or(Some(at));
                match self.call_target(back) {
                    Some(target)
                        if function.is_some_and(|function| self.leads_to(target, function)) =>
                    {
                        return Some(at);
                    }
                    Some(_) => {}
                    None => lowest_indirect = lowest_indirect.or(Some(at)),
                }
            }
            at += 8;
        }
        // A call through a pointer may be for anybody.
        lowest_indirect.or(lowest)
    }

    /// Whether who calls `target` may be in `function`: it is the same, or its last act is a jump
    /// there, which leaves no frame of its own (`e9 rel32`, `0f 80+cc rel32`, or `ff 25 rel32`
    /// through a pointer; Intel's manual, volume 2, JMP and Jcc).
    fn leads_to(&mut self, target: u64, function: u64) -> bool {
        if target == function {
            return true;
        }
        let mut code = [0; TAIL_CALL_BYTES_MAX];
        // What isn't mapped has no code.
        let length = self.view.read_memory(target, &mut code).unwrap_or(0);
        let ends = (0_u64..).zip(code[..length].windows(6));
        let jumps = ends.filter(|(offset, bytes)| {
            let to = |at: usize, length: u64| {
                let mut distance = [0; 4];
                distance.copy_from_slice(&bytes[at..at + 4]);
                let next = target.wrapping_add(offset + length);
                next.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)))
            };
            match bytes {
                [0xe9, ..] => to(1, 5) == function,
                [0x0f, 0x80..=0x8f, ..] => to(2, 6) == function,
                [0xff, 0x25, ..] => self.view.read_word(to(2, 6)) == Some(function),
                _ => false,
            }
        });
        let jumps: Vec<u64> = jumps.map(|(offset, _)| offset).collect();
        // Where another function begins before the jump, the jump is that one's.
        jumps.into_iter().any(|offset| {
            let at = target.wrapping_add(offset);
            self.symbols.function_start(&self.space, at) == Some(target)
        })
    }

    fn chain_holds(&self, mut at: u64, stack: &StackCopy) -> bool {
        for link in 0..LINKS_WANTED {
            let (Some(saved), Some(back)) = (stack.word(at), stack.word(at + 8)) else {
                // The chain leaves the copy, which is no argument against it.
                return link > 0;
            };
            // Cheap tests first: most words are neither.
            let goes_up = saved > at && saved - at <= FRAME_BYTES_MAX && saved.is_multiple_of(8);
            if !(goes_up || link > 0) || !self.space.is_code(back) || !self.follows_call(back) {
                return false;
            }
            if !goes_up {
                // The outermost function that keeps frame pointers: what it saved isn't one.
                return true;
            }
            at = saved;
        }
        true
    }

    /// Whether a call instruction ends at this address: `e8 rel32`, or `ff /2` with 0 to 5 bytes
    /// of address (Intel's manual, volume 2, CALL).
    fn follows_call(&self, back: u64) -> bool {
        let Some(code) = self.code_before(back) else {
            return false;
        };
        let indirect = [2, 3, 4, 6, 7]
            .iter()
            .map(|length| code.len() - length)
            .any(|start| code[start] == 0xff && (code[start + 1] >> 3) & 7 == 2);
        code[2] == 0xe8 || indirect
    }

    /// What the call that ends at this address calls, where the code alone tells: it names the
    /// function, or the pointer in its file that the linker filled (`ff 15 rel32`).
    fn call_target(&self, back: u64) -> Option<u64> {
        let to = |distance| back.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)));
        match self.code_before(back)? {
            [_, 0xff, 0x15, distance @ ..] => self.view.read_word(to(distance)),
            [_, _, 0xe8, distance @ ..] => Some(to(distance)),
            _ => None,
        }
    }

    /// As long as the longest call instruction.
    fn code_before(&self, back: u64) -> Option<[u8; 7]> {
        let mut code = [0; 7];
        let start = back.wrapping_sub(code.len() as u64);
        let read = self.view.read_memory(start, &mut code);
        matches!(read, Ok(7)).then_some(code)
    }
}

#[cfg(target_arch = "x86_64")]
type NativeRegisters = framehop::x86_64::UnwindRegsX86_64;

#[cfg(target_arch = "x86_64")]
fn native_registers(ip: u64, sp: u64, bp: u64) -> NativeRegisters {
    NativeRegisters::new(ip, sp, bp)
}
