//! Unwind tables of mapped files, handed to framehop when a stack first leads there.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment};

use super::address_space::{AddressSpace, Mapping};
use super::{ProcessView, regular_file};

/// A table larger than this isn't read: some hundred times those of a large program.
const TABLE_BYTES_MAX: u64 = 256 << 20;
/// The vDSO is two pages.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// The tables read so far.
#[derive(Default)]
pub(super) struct UnwindTables {
    pub(super) unwinder: framehop::UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    /// By start, the files of executable mappings that were tried, successfully or not.
    tried: HashMap<u64, (u64, String)>,
}

impl UnwindTables {
    /// Makes sure that the tables for `address` are read, where there are any. Without them
    /// framehop goes by frame pointers.
    pub(super) fn prepare(&mut self, view: &ProcessView, space: &AddressSpace, address: u64) {
        let Some(mapping) = space.find(address).filter(|mapping| mapping.is_executable) else {
            return;
        };
        let tried = self.tried.get(&mapping.start);
        if tried.is_some_and(|(inode, path)| *inode == mapping.inode && *path == mapping.path) {
            return;
        }
        if tried.is_some() {
            // Another file was unloaded from here.
            self.unwinder.remove_module(mapping.start);
        }
        let file = (mapping.inode, mapping.path.clone());
        self.tried.insert(mapping.start, file);
        if let Some(module) = read_module(view, mapping) {
            self.unwinder.add_module(module);
        }
    }
}

fn read_module(view: &ProcessView, mapping: &Mapping) -> Option<Module<Vec<u8>>> {
    if mapping.path == "[vdso]" {
        let length = (mapping.end - mapping.start).min(VDSO_BYTES_MAX);
        let mut image = vec![0; usize::try_from(length).ok()?];
        // Unreadable or not ELF: frame pointers it is, here and below.
        let read = view.read_memory(mapping.start, &mut image).ok()?;
        image.truncate(read);
        let section = |range: Range<u64>| image.get(indices(&range)?).map(<[u8]>::to_vec);
        return parse_module(mapping, &*image, section);
    }
    let path = mapping.file(view)?;
    let file = regular_file(&path)?;
    let section = |range: Range<u64>| {
        let length = range.end.checked_sub(range.start)?;
        let length = usize::try_from(length.min(TABLE_BYTES_MAX)).ok()?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    };
    let cache = ReadCache::new(regular_file(&path)?);
    parse_module(mapping, &cache, section)
}

fn indices(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

/// `section` reads a range of the file.
fn parse_module<'data>(
    mapping: &Mapping,
    data: impl ReadRef<'data>,
    section: impl Fn(Range<u64>) -> Option<Vec<u8>>,
) -> Option<Module<Vec<u8>>> {
    let object = object::File::parse(data).ok()?;
    let address_range = |name: &str| {
        let section = object.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let bytes = |name: &str| {
        let (start, length) = object.section_by_name(name)?.file_range()?;
        section(start..start.checked_add(length)?)
    };
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: address_range(".text"),
        got_svma: address_range(".got"),
        eh_frame_svma: address_range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: address_range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        ..Default::default()
    };
    // The segment that was mapped here tells by how much all addresses are shifted.
    let bias = object.segments().find_map(|segment| {
        let (offset, length) = segment.file_range();
        let holds = offset <= mapping.file_offset.saturating_add(0xfff)
            && mapping.file_offset < offset.saturating_add(length);
        let shifted = mapping
            .start
            .wrapping_sub(mapping.file_offset)
            .wrapping_add(offset);
        (holds && is_executable(&segment)).then(|| shifted.wrapping_sub(segment.address()))
    })?;
    let range = mapping.start..mapping.end;
    Some(Module::new(mapping.path.clone(), range, bias, info))
}

fn is_executable<'data>(segment: &impl ObjectSegment<'data>) -> bool {
    match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
        _ => false,
    }
}
