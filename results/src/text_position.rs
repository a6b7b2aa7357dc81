//! Where in a text a value stands, so that a check made after parsing can still
//! name the line: by offset in any text, by path in JSON.

use serde_ignored::Path;

/// Line and column (from 1, in bytes) of the value at a path such as
/// `blocks[3].endpoints.GET usage.completed`. Where the path leads nowhere: the
/// innermost value on the way.
pub(crate) fn locate(text: &[u8], path: &str) -> (usize, usize) {
    let mut cursor = Cursor { text, offset: 0 };
    let mut rest = path;
    cursor.skip_space();
    while !rest.is_empty() {
        let before = cursor.offset;
        let found = if let Some(indexed) = rest.strip_prefix('[') {
            let (index, tail) = indexed.split_once(']').unwrap_or((indexed, ""));
            rest = tail;
            index.parse().is_ok_and(|index| cursor.enter_item(index))
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            match cursor.enter_field(rest) {
                Some(length) => {
                    rest = &rest[length..];
                    true
                }
                None => false,
            }
        };
        if !found {
            cursor.offset = before;
            break;
        }
    }
    position(text, cursor.offset)
}

/// The path of a field that nothing reads, in the same notation.
pub(crate) fn ignored_path(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", ignored_path(parent)),
        Path::Map { parent, key } => match ignored_path(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => ignored_path(parent),
    }
}

/// Line and column (from 1, in bytes) of an offset.
pub(crate) fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    (line, before.len() - line_start + 1)
}

/// Walks a text that has been parsed already.
struct Cursor<'a> {
    text: &'a [u8],
    offset: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.offset).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.offset += 1;
        }
    }

    /// Past a comma, colon or bracket and the space around it.
    fn step(&mut self) {
        self.skip_space();
        self.offset += 1;
        self.skip_space();
    }

    fn enter_item(&mut self, index: usize) -> bool {
        if self.peek() != b'[' {
            return false;
        }
        self.step();
        for _ in 0..index {
            self.skip_value();
            self.skip_space();
            if self.peek() != b',' {
                return false;
            }
            self.step();
        }
        self.peek() != b']'
    }

    /// Enters the field whose name is the longest that `path` begins with, since
    /// names of endpoints may hold dots; the length of that name.
    fn enter_field(&mut self, path: &str) -> Option<usize> {
        if self.peek() != b'{' {
            return None;
        }
        self.step();
        let mut best: Option<(usize, usize)> = None;
        while self.peek() == b'"' {
            let start = self.offset;
            self.skip_value();
            let key: String = serde_json::from_slice(&self.text[start..self.offset]).ok()?;
            self.step();
            let ends = path
                .strip_prefix(key.as_str())
                .is_some_and(|tail| tail.is_empty() || tail.starts_with(['.', '[']));
            if ends && best.is_none_or(|(length, _)| key.len() > length) {
                best = Some((key.len(), self.offset));
            }
            self.skip_value();
            self.skip_space();
            if self.peek() != b',' {
                break;
            }
            self.step();
        }
        let (length, offset) = best?;
        self.offset = offset;
        Some(length)
    }

    fn skip_value(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.offset += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.offset += 1;
                }
                _ if self.offset >= self.text.len() => return,
                _ if depth == 0 => {
                    while !matches!(self.peek(), b',' | b'}' | b']' | 0)
                        && !self.peek().is_ascii_whitespace()
                    {
                        self.offset += 1;
                    }
                    return;
                }
                _ => self.offset += 1,
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.offset += 1;
        while self.offset < self.text.len() && self.peek() != b'"' {
            self.offset += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.offset += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"{\n  \"a\": [1, {\"b.c\": \"x\\\"}\",\n \"b\": {\"c\": 2}}],\n  \"d\": -1.5e3\n}";

    #[test]
    fn values_are_found() {
        assert_eq!(locate(TEXT, ""), (1, 1));
        assert_eq!(locate(TEXT, "a"), (2, 8));
        assert_eq!(locate(TEXT, "a[0]"), (2, 9));
        assert_eq!(locate(TEXT, "a[1]"), (2, 12));
        assert_eq!(locate(TEXT, "a[1].b.c"), (2, 20));
        assert_eq!(locate(TEXT, "d"), (4, 8));
    }

    #[test]
    fn a_path_to_nowhere_ends_on_the_way() {
        assert_eq!(locate(TEXT, "a[7]"), (2, 8));
        assert_eq!(locate(TEXT, "a[1].zzz"), (2, 12));
        assert_eq!(locate(TEXT, "nothing.here"), (1, 1));
        assert_eq!(locate(b"", "a[0]"), (1, 1));
        assert_eq!(locate(b"{\"a\": [", "a[0].b"), (1, 8));
    }
}
