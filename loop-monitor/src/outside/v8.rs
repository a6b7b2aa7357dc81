//! The stack of JavaScript functions of a thread of Node, read from its memory.
//!
//! V8 leaves debuggers the layout of its objects in symbols `v8dbg_…` of its program
//! (`tools/gen-postmortem-metadata.py` of its source), so nothing depends on a version but where
//! noted. A frame of JavaScript has its function at a fixed place below its frame pointer. Native
//! frames between them keep no frame pointer, so frames aren't walked: each word of the stack is
//! tried, and holds a frame if what must be a function has what only a function has.

use std::cell::RefCell;
use std::collections::HashMap;

use super::elf::Elf;
use crate::cause::Frame;
use crate::process::ProcessView;
use crate::process::symbols::is_own_file;

/// Copied from the stack pointer upwards: the frames of a few dozen calls.
const STACK_BYTES: usize = 96 * 1024;
/// Frames kept, from the innermost.
const FRAMES_MAX: usize = 32;
/// Names and paths are shorter.
const TEXT_BYTES_MAX: usize = 1024;
/// A source beyond this gets no line.
const SOURCE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Functions remembered with their line.
const LINES_MAX: usize = 65_536;
/// Strings are made of others at most so deep here.
const STRING_DEPTH_MAX: u8 = 8;
/// Of `ScopeInfo` (`scope-info.tq`), which has no symbols: after the map come flags, a count, the
/// count of locals, then what depends on the version.
const SCOPE_LOCALS: u64 = 24;
const SCOPE_REST: u64 = 32;
/// Beyond so many, the names are elsewhere.
const SCOPE_LOCALS_MAX: u64 = 75;

/// Reads JavaScript's stacks of one process.
pub(super) struct V8 {
    view: ProcessView,
    layout: Layout,
    /// By file and position, which stay while objects move: finding one reads the source.
    lines: RefCell<HashMap<(String, usize), Option<u32>>>,
}

/// Offsets within objects, from their begin; and numbers of types.
struct Layout {
    function_below_fp: u64,
    context_below_fp: u64,
    map: u64,
    instance_type: u64,
    function_shared: u64,
    shared_name_or_scope: u64,
    shared_script: u64,
    script_name: u64,
    script_source: u64,
    string_length: u64,
    string_chars: u64,
    string_first: u64,
    string_second: u64,
    shared_type: u16,
    script_type: u16,
    scope_type: u16,
    first_nonstring_type: u16,
}

impl Layout {
    /// `None` when one is missing: another engine, or symbols that were stripped.
    fn of(symbols: &HashMap<String, i32>) -> Option<Self> {
        let offset = |name: &str| u64::try_from(*symbols.get(name)?).ok();
        let below = |name: &str| u64::try_from(symbols.get(name)?.checked_neg()?).ok();
        let kind = |name: &str| u16::try_from(*symbols.get(name)?).ok();
        Some(Self {
            function_below_fp: below("off_fp_function")?,
            context_below_fp: below("off_fp_context")?,
            map: offset("class_HeapObject__map__Map")?,
            instance_type: offset("class_Map__instance_type__uint16_t")?,
            function_shared: offset("class_JSFunction__shared__SharedFunctionInfo")?,
            shared_name_or_scope: offset("class_SharedFunctionInfo__name_or_scope_info__Object")?,
            shared_script: offset("class_SharedFunctionInfo__script_or_debug_info__HeapObject")?,
            script_name: offset("class_Script__name__Object")?,
            script_source: offset("class_Script__source__Object")?,
            string_length: offset("class_String__length__int32_t")?,
            string_chars: offset("class_SeqOneByteString__chars__char")?,
            string_first: offset("class_ConsString__first__String")?,
            string_second: offset("class_ConsString__second__String")?,
            shared_type: kind("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
            script_type: kind("type_Script__SCRIPT_TYPE")?,
            scope_type: kind("type_ScopeInfo__SCOPE_INFO_TYPE")?,
            first_nonstring_type: kind("FirstNonstringType")?,
        })
    }
}

impl V8 {
    /// For a process whose engine is in the file at `path`; `None` when its layout can't be had.
    pub(super) fn of(view: &ProcessView, path: &str) -> Option<Self> {
        let symbols = Elf::of(view, path)?.integers("v8dbg_")?;
        Some(Self {
            view: view.clone(),
            layout: Layout::of(&symbols)?,
            lines: RefCell::default(),
        })
    }

    /// The functions on the stack that begins at `sp`, innermost first.
    pub(super) fn frames(&self, sp: u64) -> Vec<Frame> {
        let mut bytes = vec![0; STACK_BYTES];
        // A stack that can't be read has no frames to show; the native ones are there.
        let read = self.view.read_memory(sp, &mut bytes).unwrap_or(0);
        let words: Vec<u64> = bytes[..read]
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let end = sp.wrapping_add(read as u64);
        let [function, context] = [self.layout.function_below_fp, self.layout.context_below_fp];
        let [function, context] = [function, context].map(|below| usize::try_from(below / 8).ok());
        let (Some(function), Some(context)) = (function, context) else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        for (index, saved_fp) in words.iter().enumerate().skip(function.max(context)) {
            let fp = sp.wrapping_add(index as u64 * 8);
            let is_chained = *saved_fp > fp && *saved_fp < end.wrapping_add(STACK_BYTES as u64);
            let candidate = words[index - function];
            if is_chained && is_tagged(candidate) && is_tagged(words[index - context]) {
                frames.extend(self.function(candidate));
            }
            if frames.len() >= FRAMES_MAX {
                break;
            }
        }
        frames
    }

    /// A function's frame; `None` when this is no function, or the engine's own without a script.
    fn function(&self, function: u64) -> Option<Frame> {
        let layout = &self.layout;
        let shared = self.field(function, layout.function_shared)?;
        if self.type_of(shared)? != layout.shared_type {
            return None;
        }
        let script = self.field(shared, layout.shared_script)?;
        if self.type_of(script)? != layout.script_type {
            return None;
        }
        let file = self.text(self.field(script, layout.script_name)?)?;
        let file = file
            .strip_prefix("file://")
            .map(str::to_owned)
            .unwrap_or(file);
        let (name, begin) = self.name_and_begin(self.field(shared, layout.shared_name_or_scope)?);
        let line = begin.and_then(|begin| self.known_line(&file, script, begin));
        let name = name.filter(|name| !name.is_empty());
        Some(Frame {
            function: name.unwrap_or_else(|| "(anonymous)".to_owned()),
            line,
            is_own: is_own_file(&file),
            file: Some(file),
        })
    }

    /// The name, and where in the source the function begins.
    fn name_and_begin(&self, name_or_scope: u64) -> (Option<String>, Option<usize>) {
        if self.type_of(name_or_scope) != Some(self.layout.scope_type) {
            return (self.text(name_or_scope), None);
        }
        let word = |at| self.field(name_or_scope, at);
        let locals = word(SCOPE_LOCALS).and_then(small_integer);
        let Some(locals) = locals.filter(|locals| *locals <= SCOPE_LOCALS_MAX) else {
            return (None, None);
        };
        // V8 from 11.5 on has begin and end here, for every scope.
        let begin = word(SCOPE_REST).and_then(small_integer);
        let is_first = begin.is_some() && word(SCOPE_REST + 8).and_then(small_integer).is_some();
        // Each local has a name and a description; then the function's name with its place, if it
        // has one, and a name that was guessed, if there is one.
        let mut at = SCOPE_REST + locals * 16 + if is_first { 16 } else { 0 };
        let own_name = word(at).and_then(|name| self.text(name));
        at += if own_name.is_some() { 16 } else { 0 };
        let guessed = word(at).filter(|word| small_integer(*word).is_none());
        let guessed_name = guessed.and_then(|name| self.text(name));
        at += if guessed.is_some() { 8 } else { 0 };
        let begin = if is_first {
            begin
        } else {
            word(at).and_then(small_integer)
        };
        // A guess is longer, `routes./usage`, and only made for functions without a name.
        let names = [guessed_name, own_name].into_iter().flatten();
        let name = names.into_iter().find(|name| !name.is_empty());
        (name, begin.and_then(|begin| usize::try_from(begin).ok()))
    }

    fn known_line(&self, file: &str, script: u64, position: usize) -> Option<u32> {
        let place = (file.to_owned(), position);
        if let Some(line) = self.lines.borrow().get(&place) {
            return *line;
        }
        let line = self.line(script, position);
        let mut lines = self.lines.borrow_mut();
        if lines.len() < LINES_MAX {
            lines.insert(place, line);
        }
        line
    }

    /// The line of a position, from 1.
    fn line(&self, script: u64, position: usize) -> Option<u32> {
        if position > SOURCE_BYTES_MAX {
            return None;
        }
        let source = self.field(script, self.layout.script_source)?;
        let before = self.characters(source, position, STRING_DEPTH_MAX)?;
        let ends = before
            .iter()
            .filter(|unit| **unit == u16::from(b'\n'))
            .count();
        u32::try_from(ends + 1).ok()
    }

    /// A string as text.
    fn text(&self, string: u64) -> Option<String> {
        let units = self.characters(string, TEXT_BYTES_MAX, STRING_DEPTH_MAX)?;
        Some(String::from_utf16_lossy(&units))
    }

    /// At most `max` code units of a string, whatever it is made of (`src/objects/string.h`).
    fn characters(&self, string: u64, max: usize, depth: u8) -> Option<Vec<u16>> {
        let kind = self.type_of(string)?;
        if kind >= self.layout.first_nonstring_type || depth == 0 {
            return None;
        }
        let address = string.checked_sub(1)?;
        let length = self
            .view
            .read_word(address.wrapping_add(self.layout.string_length & !7))?;
        let length = length >> ((self.layout.string_length & 7) * 8) & 0xffff_ffff;
        let length = usize::try_from(length).ok()?.min(max);
        let is_one_byte = kind & 8 != 0;
        let (first, second) = (self.layout.string_first, self.layout.string_second);
        match kind & 7 {
            0 => self.units(
                address.wrapping_add(self.layout.string_chars),
                length,
                is_one_byte,
            ),
            1 => {
                let mut units = self.characters(self.field(string, first)?, max, depth - 1)?;
                let rest = length.saturating_sub(units.len());
                if rest > 0 {
                    units.extend(self.characters(self.field(string, second)?, rest, depth - 1)?);
                }
                Some(units)
            }
            // Kept outside of the heap; the field after the resource has its address.
            2 => self.units(
                self.view.read_word(address.wrapping_add(second))?,
                length,
                is_one_byte,
            ),
            3 => {
                let offset = small_integer(self.field(string, second)?)?;
                let offset = usize::try_from(offset).ok()?;
                let parent = self.field(string, first)?;
                let units = self.characters(parent, offset.checked_add(length)?, depth - 1)?;
                units.get(offset..).map(<[u16]>::to_vec)
            }
            5 => self.characters(self.field(string, first)?, max, depth - 1),
            _ => None,
        }
    }

    fn units(&self, address: u64, length: usize, is_one_byte: bool) -> Option<Vec<u16>> {
        if length > SOURCE_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; if is_one_byte { length } else { length * 2 }];
        if !bytes.is_empty() && self.view.read_memory(address, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        Some(if is_one_byte {
            bytes.into_iter().map(u16::from).collect()
        } else {
            let pairs = bytes.chunks_exact(2);
            pairs
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect()
        })
    }

    fn type_of(&self, object: u64) -> Option<u16> {
        let map = self.field(object, self.layout.map)?;
        let at = is_tagged(map).then(|| (map - 1).wrapping_add(self.layout.instance_type))?;
        let word = self.view.read_word(at & !7)?;
        u16::try_from(word >> ((at & 7) * 8) & 0xffff).ok()
    }

    fn field(&self, object: u64, offset: u64) -> Option<u64> {
        if !is_tagged(object) {
            return None;
        }
        self.view.read_word((object - 1).wrapping_add(offset))
    }
}

/// Pointers to objects end in 01; integers in 0 (`kHeapObjectTag`, `kSmiTag`).
fn is_tagged(word: u64) -> bool {
    word & 3 == 1 && word > 0x1000
}

/// Integers are in the upper half of a word, without pointer compression, which Node doesn't use.
fn small_integer(word: u64) -> Option<u64> {
    (word & 0xffff_ffff == 0).then_some(word >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_pointers_are_told_apart() {
        assert_eq!(small_integer(7 << 32), Some(7));
        assert_eq!(small_integer(0x1234_5679), None);
        assert!(is_tagged(0x1234_5679) && !is_tagged(7 << 32) && !is_tagged(1));
    }

    #[test]
    fn a_layout_that_is_not_whole_is_none() {
        assert!(Layout::of(&HashMap::new()).is_none());
    }
}
