//! The tools on files: read, write, replace, list, search.

use std::time::Duration;

use serde_json::{Value, json};

use super::cut_text::CHARS_MAX;
use super::failure::ToolFailure;
use super::inputs::{ListDirInput, ReadFileInput, SearchInput, StrReplaceInput, WriteFileInput};
use crate::domain::TreePath;
use crate::domain::tree_path::escaped;
use crate::ports::files::{EntryKind, Expected, FileAccess, Listing, SearchRequest};

/// Bytes of a file that are read, or edited. Sources are far smaller.
pub(super) const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entries of a folder that are told.
const ENTRIES_MAX: usize = 1000;
/// Hits that can be asked for.
const HITS_MAX: usize = 1000;
/// How long a search may take: longer than any in a usual repository does.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 2000;

pub(super) async fn read_file(
    files: &dyn FileAccess,
    input: ReadFileInput,
) -> Result<Value, ToolFailure> {
    let path = TreePath::parse(&input.path)?;
    let read = files.read(path.clone(), FILE_BYTES_MAX).await?;
    let (text, is_utf8) = read.text();
    let lines = numbered(&text, input.first_line.max(1), input.lines_max.max(1));
    if lines.shown == 0 && lines.total + 1 < input.first_line {
        if read.is_truncated {
            return Err(too_large(&path));
        }
        return Err(ToolFailure::PastTheEnd {
            path: path.to_string(),
            lines: lines.total,
            asked: input.first_line,
        });
    }
    let next_line = input.first_line.max(1) + lines.shown;
    let is_truncated = read.is_truncated || lines.is_line_cut || next_line <= lines.total;
    Ok(json!({
        "success": true,
        "path": escaped(path.as_bytes()),
        "content": lines.text,
        "is_truncated": is_truncated,
        "next_line": (next_line <= lines.total).then_some(next_line),
        "total_lines": (!read.is_truncated).then_some(lines.total),
        "size_bytes": read.size_bytes,
        "is_utf8": is_utf8,
    }))
}

/// Lines with their numbers in front.
struct Numbered {
    text: String,
    /// How many are in the text.
    shown: u64,
    /// How many the file has.
    total: u64,
    /// Was one of them too long to be shown whole?
    is_line_cut: bool,
}

fn numbered(text: &str, first: u64, lines_max: u64) -> Numbered {
    let mut lines = Numbered {
        text: String::new(),
        shown: 0,
        total: 0,
        is_line_cut: false,
    };
    let mut chars = 0;
    let mut is_full = false;
    for line in text.lines() {
        lines.total += 1;
        if lines.total < first || lines.shown == lines_max || is_full {
            continue;
        }
        let (line, is_cut) = match line.char_indices().nth(LINE_CHARS_MAX) {
            Some((end, _)) => (&line[..end], true),
            None => (line, false),
        };
        let mark = if is_cut { "…" } else { "" };
        let row = format!("{:>6}\t{line}{mark}\n", lines.total);
        let row_chars = row.chars().count();
        if chars + row_chars > CHARS_MAX {
            is_full = true;
            continue;
        }
        chars += row_chars;
        lines.text.push_str(&row);
        lines.shown += 1;
        lines.is_line_cut |= is_cut;
    }
    lines
}

pub(super) async fn write_file(
    files: &dyn FileAccess,
    input: WriteFileInput,
) -> Result<Value, ToolFailure> {
    let path = TreePath::parse(&input.path)?;
    let size_bytes = input.content.len();
    let written = files
        .write(path.clone(), input.content.into_bytes(), Expected::Anything)
        .await?;
    Ok(json!({
        "success": true,
        "path": escaped(path.as_bytes()),
        "is_new": written.is_new,
        "size_bytes": size_bytes,
    }))
}

pub(super) async fn str_replace(
    files: &dyn FileAccess,
    input: StrReplaceInput,
) -> Result<Value, ToolFailure> {
    if input.old.is_empty() {
        return Err(ToolFailure::Input("`old` is empty".to_owned()));
    }
    let path = TreePath::parse(&input.path)?;
    let read = files.read(path.clone(), FILE_BYTES_MAX).await?;
    if read.is_truncated {
        return Err(too_large(&path));
    }
    // Bytes, so that what else is in the file stays as it is, whatever its encoding.
    let found = places_of(&read.bytes, input.old.as_bytes());
    let Some(first) = found.first() else {
        let path = path.to_string();
        return Err(ToolFailure::TextNotFound { path });
    };
    if found.len() > 1 && !input.replace_all {
        return Err(ToolFailure::TextAmbiguous {
            path: path.to_string(),
            times: found.len(),
        });
    }
    // A short text that is everywhere, replaced by a long one, would take all memory.
    let growth = found.len().saturating_mul(input.new.len());
    if read.bytes.len().saturating_add(growth) > 2 * FILE_BYTES_MAX {
        return Err(too_large(&path));
    }
    let lines_before = read.bytes[..*first].iter().filter(|byte| **byte == b'\n');
    let first_line = lines_before.count() + 1;
    let new = replaced(&read.bytes, &found, input.old.len(), input.new.as_bytes());
    files
        .write(path.clone(), new, Expected::Unchanged(read.version))
        .await?;
    Ok(json!({
        "success": true,
        "path": escaped(path.as_bytes()),
        "replaced": found.len(),
        "first_line": first_line,
    }))
}

fn too_large(path: &TreePath) -> ToolFailure {
    ToolFailure::TooLarge {
        path: path.to_string(),
        bytes_max: FILE_BYTES_MAX,
    }
}

/// Where `wanted`, which isn't empty, begins in `bytes`, without overlaps.
fn places_of(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(bytes, wanted).collect()
}

fn replaced(bytes: &[u8], places: &[usize], old_len: usize, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for &at in places {
        result.extend_from_slice(&bytes[done..at]);
        result.extend_from_slice(new);
        done = at + old_len;
    }
    result.extend_from_slice(&bytes[done..]);
    result
}

pub(super) async fn list_dir(
    files: &dyn FileAccess,
    input: ListDirInput,
) -> Result<Value, ToolFailure> {
    let path = TreePath::parse(&input.path)?;
    let Listing {
        entries,
        is_truncated,
    } = files.list(path, ENTRIES_MAX).await?;
    let entries: Vec<Value> = entries
        .into_iter()
        .map(|entry| {
            let mut told = json!({
                "name": escaped(&entry.name),
                "kind": match entry.kind {
                    EntryKind::File => "file",
                    EntryKind::Folder => "folder",
                    EntryKind::Link => "link",
                    EntryKind::Other => "other",
                },
            });
            if entry.kind == EntryKind::File {
                told["size_bytes"] = entry.size_bytes.into();
            }
            if let Some(target) = &entry.link_target {
                told["leads_to"] = escaped(target).into();
            }
            told
        })
        .collect();
    Ok(json!({"success": true, "entries": entries, "is_truncated": is_truncated}))
}

pub(super) async fn search(
    files: &dyn FileAccess,
    input: SearchInput,
) -> Result<Value, ToolFailure> {
    let request = SearchRequest {
        pattern: input.pattern,
        glob: input.glob,
        is_case_sensitive: input.case_sensitive,
        within: TreePath::parse(&input.path)?,
        hits_max: input.hits_max.clamp(1, HITS_MAX),
        time_max: SEARCH_TIME_MAX,
    };
    let found = files.search(request).await?;
    let mut chars = 0;
    let mut hits = Vec::new();
    let mut is_truncated = found.is_truncated;
    for hit in found.hits {
        let line = format!(
            "{}:{}:{}",
            escaped(hit.path.as_bytes()),
            hit.line,
            hit.snippet
        );
        chars += line.chars().count() + 1;
        if chars > CHARS_MAX {
            is_truncated = true;
            break;
        }
        hits.push(line);
    }
    Ok(json!({
        "success": true,
        "hits": hits,
        "is_truncated": is_truncated,
        "is_out_of_time": found.is_out_of_time,
        "files_searched": found.files_searched,
        "skipped": found.skipped,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_counted() {
        let lines = numbered("a\nb\r\nc", 2, 1);
        assert_eq!(lines.text, "     2\tb\n");
        assert_eq!((lines.shown, lines.total, lines.is_line_cut), (1, 3, false));
        assert_eq!(numbered("", 1, 5).total, 0);
        let long = numbered(&"x".repeat(LINE_CHARS_MAX + 1), 1, 5);
        assert!(long.is_line_cut && long.text.ends_with("x…\n"));
    }

    #[test]
    fn no_more_lines_are_shown_than_fit() {
        let lines = numbered(&"0123456789\n".repeat(20_000), 1, u64::MAX);
        assert!(lines.text.chars().count() <= CHARS_MAX);
        assert!(lines.shown < 20_000 && lines.total == 20_000);
    }

    #[test]
    fn only_the_text_itself_is_replaced() {
        let text = b"a\xffb ab aab";
        let places = places_of(text, b"ab");
        assert_eq!(places, [4, 8]);
        assert_eq!(replaced(text, &places, 2, b"-"), b"a\xffb - a-");
        assert_eq!(places_of(b"aaa", b"aa"), [0]);
    }
}
