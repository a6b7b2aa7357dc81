//! A TOML text with the place of everything in it, so that an error found long after
//! parsing still names its line.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::deserialize::Node;
use crate::error::ScenarioError;

/// A parsed TOML text and where it came from.
#[derive(Debug)]
pub(crate) struct Document<'t> {
    origin: PathBuf,
    text: &'t str,
    root: Spanned<DeValue<'t>>,
    /// Of the text and of each file that it names.
    identity: RefCell<Sha256>,
}

/// The way to a value from the document's root.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    /// The whole document.
    Root,
    /// A table's value.
    Key(&'p Place<'p>, &'p str),
    /// A table's key itself.
    Name(&'p Place<'p>, &'p str),
    /// An array's item.
    Item(&'p Place<'p>, usize),
}

impl<'p> Place<'p> {
    pub(crate) fn key(&'p self, name: &'p str) -> Self {
        Self::Key(self, name)
    }

    pub(crate) fn name(&'p self, name: &'p str) -> Self {
        Self::Name(self, name)
    }

    pub(crate) fn item(&'p self, index: usize) -> Self {
        Self::Item(self, index)
    }
}

impl<'t> Document<'t> {
    /// Parses the text; the origin is only named in errors.
    pub(crate) fn parse(text: &'t str, origin: &Path) -> Result<Self, ScenarioError> {
        let table = DeTable::parse(text).map_err(|error| {
            // Only too deep a nesting comes without a place.
            let fix = match error.span() {
                Some(_) => "mend the TOML here; strings need quotes, tables are `[name]`, lists of tables `[[name]]`",
                None => "nest tables and keys less deeply",
            };
            let start = error.span().map_or(0, |span| span.start);
            invalid(origin, text, start, syntax_message(error.message()), fix.to_owned())
        })?;
        let span = table.span();
        Ok(Self {
            origin: origin.to_owned(),
            text,
            root: Spanned::new(span, DeValue::Table(table.into_inner())),
            identity: RefCell::new(Sha256::new_with_prefix(text.as_bytes())),
        })
    }

    /// Reads the raw form.
    pub(crate) fn read<'d, T: Deserialize<'d>>(&'d self) -> Result<T, ScenarioError> {
        T::deserialize(Node::new(&self.root)).map_err(|problem| {
            let start = problem.span.map_or(0, |span| span.start);
            invalid(&self.origin, self.text, start, problem.what, problem.fix)
        })
    }

    /// The path of a file that the document names.
    pub(crate) fn beside(&self, file: &str) -> PathBuf {
        let folder = self.origin.parent().unwrap_or(Path::new(""));
        folder.join(file)
    }

    /// What a named file holds is part of what the document means.
    pub(crate) fn identify_by(&self, bytes: &[u8]) {
        let mut identity = self.identity.borrow_mut();
        // Each as its own digest: a boundary between two files can't move unseen.
        identity.update(Sha256::digest(bytes));
    }

    /// SHA-256 of the text, and of the files that have been named, in hex.
    pub(crate) fn identity(&self) -> String {
        let digest = self.identity.borrow().clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// An error at a place, or at the nearest thing around it that is written down.
    pub(crate) fn error(
        &self,
        place: &Place<'_>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> ScenarioError {
        let (_, span) = self.locate(place);
        invalid(&self.origin, self.text, span.start, what.into(), fix.into())
    }

    fn locate(&self, place: &Place<'_>) -> (Option<&Spanned<DeValue<'t>>>, Range<usize>) {
        let (parent, found) = match place {
            Place::Root => return (Some(&self.root), 0..0),
            Place::Key(parent, name) => {
                let (table, span) = self.locate(parent);
                ((table, span), Step::Key(name))
            }
            Place::Name(parent, name) => {
                let (table, span) = self.locate(parent);
                let key = table
                    .and_then(|table| table.get_ref().as_table())
                    .and_then(|table| table.get_key_value(*name));
                return (None, key.map_or(span, |(key, _)| key.span()));
            }
            Place::Item(parent, index) => {
                let (array, span) = self.locate(parent);
                ((array, span), Step::Item(*index))
            }
        };
        let (value, around) = parent;
        let inner = value.and_then(|value| match (value.get_ref(), found) {
            (DeValue::Table(table), Step::Key(name)) => table.get(name),
            (DeValue::Array(items), Step::Item(index)) => items.get(index),
            _ => None,
        });
        match inner {
            Some(inner) => (Some(inner), inner.span()),
            None => (None, around),
        }
    }
}

enum Step<'p> {
    Key(&'p str),
    Item(usize),
}

/// Reads a file as text; bytes that are no UTF-8 are an error at their line.
pub(crate) fn read_text(path: &Path) -> Result<String, ScenarioError> {
    let bytes = std::fs::read(path).map_err(|source| ScenarioError::Read {
        path: path.to_owned(),
        source,
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let before = String::from_utf8_lossy(&bytes[..valid]);
        let what = format!("byte 0x{:02x} is not UTF-8", bytes[valid]);
        let fix = "save the file as UTF-8";
        invalid(path, &before, before.len(), what, fix.to_owned())
    })
}

/// An error at a byte offset of a text.
pub(crate) fn invalid(
    path: &Path,
    text: &str,
    offset: usize,
    what: String,
    fix: String,
) -> ScenarioError {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    ScenarioError::Invalid {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        what,
        fix,
    }
}

/// The parser's message on one line.
fn syntax_message(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    format!("not TOML: {}", lines.join("; "))
}
