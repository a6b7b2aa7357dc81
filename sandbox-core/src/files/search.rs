//! A regular expression searched in a tree's files, in-process and bounded in hits, time and memory.

use std::io::{self, Read};
use std::time::Instant;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};

use super::Abandoned;
use super::root::{Links, TreeRoot};
use super::walk::Walk;
use crate::domain::TreePath;
use crate::ports::files::{FilesError, Hit, SearchFound, SearchRequest};

/// Bytes that a compiled pattern may take: the default of Rust's regular expressions.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Bytes of a line that is searched; a file with a longer one is left out from there on.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Characters of a line that a hit shows.
const SNIPPET_CHARS_MAX: usize = 300;

/// Why a search stops before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Enough,
    OutOfTime,
    Abandoned,
}

impl TreeRoot {
    pub(super) fn search(
        &self,
        request: &SearchRequest,
        abandoned: &Abandoned,
    ) -> Result<SearchFound, FilesError> {
        let matcher = matcher_of(request)?;
        let mut walk = Walk::new(self, &request.within, glob_of(request)?)?;
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LINE_BYTES_MAX))
            .build();
        let mut search = Search {
            hits_max: request.hits_max,
            ends: Instant::now() + request.time_max,
            abandoned,
            found: SearchFound::default(),
            stop: None,
        };
        while search.may_go_on() {
            match walk.next() {
                None => break,
                Some(None) => {}
                Some(Some(path)) => search.look_into(self, path, &matcher, &mut searcher),
            }
        }
        if search.stop == Some(Stop::Abandoned) {
            let path = request.within.to_string();
            return Err(FilesError::Abandoned { path });
        }
        let mut found = search.found;
        found.is_truncated = search.stop == Some(Stop::Enough);
        found.is_out_of_time = search.stop == Some(Stop::OutOfTime);
        found.skipped += walk.folders_skipped;
        Ok(found)
    }
}

fn matcher_of(request: &SearchRequest) -> Result<RegexMatcher, FilesError> {
    RegexMatcherBuilder::new()
        .case_insensitive(!request.is_case_sensitive)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES_MAX)
        .build(&request.pattern)
        .map_err(|error| FilesError::Pattern {
            what: "pattern",
            reason: error.to_string(),
        })
}

fn glob_of(request: &SearchRequest) -> Result<Override, FilesError> {
    let bad = |error: ignore::Error| FilesError::Pattern {
        what: "glob",
        reason: error.to_string(),
    };
    let mut builder = OverrideBuilder::new("/");
    if let Some(glob) = &request.glob {
        builder.add(glob).map_err(bad)?;
    }
    builder.build().map_err(bad)
}

struct Search<'a> {
    hits_max: usize,
    ends: Instant,
    abandoned: &'a Abandoned,
    found: SearchFound,
    stop: Option<Stop>,
}

impl Search<'_> {
    fn may_go_on(&mut self) -> bool {
        if self.stop.is_none() {
            if self.abandoned.is_set() {
                self.stop = Some(Stop::Abandoned);
            } else if Instant::now() >= self.ends {
                self.stop = Some(Stop::OutOfTime);
            }
        }
        self.stop.is_none()
    }

    fn look_into(
        &mut self,
        root: &TreeRoot,
        path: TreePath,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
    ) {
        // It may have become a link or a pipe since it was listed.
        let Ok((file, _)) = root.open_file(&path, Links::Refused) else {
            self.found.skipped += 1;
            return;
        };
        self.found.files_searched += 1;
        let stoppable = Stoppable {
            file,
            ends: self.ends,
            abandoned: self.abandoned,
        };
        let sink = Lines { path, search: self };
        if searcher.search_reader(matcher, stoppable, sink).is_err() && self.may_go_on() {
            self.found.skipped += 1;
        }
    }
}

/// A file whose reading ends when the search must.
struct Stoppable<'a> {
    file: std::fs::File,
    ends: Instant,
    abandoned: &'a Abandoned,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abandoned.is_set() || Instant::now() >= self.ends {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// Takes the lines that were found in one file.
struct Lines<'s, 'a> {
    path: TreePath,
    search: &'s mut Search<'a>,
}

impl Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let hits = &mut self.search.found.hits;
        if hits.len() >= self.search.hits_max {
            self.search.stop = Some(Stop::Enough);
            return Ok(false);
        }
        hits.push(Hit {
            path: self.path.clone(),
            line: found.line_number().unwrap_or_default(),
            snippet: snippet_of(found.bytes()),
        });
        Ok(true)
    }
}

fn snippet_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    match text.char_indices().nth(SNIPPET_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_left_in_its_middle_when_nobody_waits_or_the_time_is_over() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"more").expect("written");
        let read = |file: &std::fs::File, ends: Instant, abandoned: &Abandoned| {
            let file = file.try_clone().expect("a descriptor");
            Stoppable {
                file,
                ends,
                abandoned,
            }
            .read(&mut [0; 2])
            .is_ok()
        };
        let later = Instant::now() + Duration::from_secs(3600);
        let abandoned = Abandoned::default();
        assert!(read(&file, later, &abandoned));
        assert!(!read(&file, Instant::now(), &abandoned));
        abandoned
            .0
            .store(true, std::sync::atomic::Ordering::Release);
        assert!(!read(&file, later, &abandoned));
    }

    #[test]
    fn a_snippet_is_the_line_without_its_end() {
        assert_eq!(snippet_of(b"a \r\n"), "a ");
        assert_eq!(snippet_of(b"\xff"), "\u{fffd}");
        assert_eq!(snippet_of("ä".repeat(301).as_bytes()).chars().count(), 301);
        assert_eq!(snippet_of("ä".repeat(300).as_bytes()).chars().count(), 300);
    }
}
