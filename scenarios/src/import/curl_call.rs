//! One curl command as its options come.

use super::ImportError;
use super::curl_values::urlencoded;
use super::draft::{DraftPart, DraftRequest};
use super::shell::Word;
use super::url;

/// One curl command up to `--next`, as its options come.
#[derive(Default)]
pub(super) struct Call {
    pub(super) request: DraftRequest,
    pub(super) urls: Vec<Word>,
    pub(super) query: Vec<(String, String)>,
    pub(super) data: Vec<String>,
    pub(super) data_file: Option<String>,
    pub(super) parts: Vec<DraftPart>,
    pub(super) json: bool,
    pub(super) get: bool,
    pub(super) head: bool,
    pub(super) upload: bool,
    pub(super) follows: bool,
    pub(super) redirects_max: Option<u32>,
}

impl Call {
    /// `-d text` or `-d @file`.
    pub(super) fn add_data(
        &mut self,
        value: &str,
        may_be_file: bool,
        line: usize,
    ) -> Result<(), ImportError> {
        let file = value.strip_prefix('@').filter(|_| may_be_file);
        let is_alone = self.data.is_empty() && self.data_file.is_none();
        match file {
            Some("-") => Err(ImportError::at_line(
                line,
                "`@-` reads the body from the standard input",
                "put the body into a file beside the scenario, and name it as `@FILE`",
            )),
            Some(file) if is_alone => {
                self.data_file = Some(file.to_owned());
                Ok(())
            }
            None if self.data_file.is_none() => {
                self.data.push(value.to_owned());
                Ok(())
            }
            _ => Err(ImportError::at_line(
                line,
                "a body of a file and of something else",
                "put the whole body into one file",
            )),
        }
    }

    pub(super) fn add_query(&mut self, value: &str, line: usize) -> Result<(), ImportError> {
        let text = match value.strip_prefix('+') {
            Some(text) => text.to_owned(),
            None => urlencoded(value, line)?,
        };
        self.query.extend(query_pairs(&text, line)?);
        Ok(())
    }

    /// Makes the data a query, as `-G` has it.
    pub(super) fn data_to_query(&mut self, line: usize) -> Result<(), ImportError> {
        let pairs = query_pairs(&self.data.join("&"), line)?;
        self.query.extend(pairs);
        self.data.clear();
        Ok(())
    }

    pub(super) fn upload(&mut self, value: &str, line: usize) -> Result<(), ImportError> {
        self.upload = true;
        self.add_data(&format!("@{value}"), true, line)
    }
}

fn query_pairs(text: &str, line: usize) -> Result<Vec<(String, String)>, ImportError> {
    url::pairs(text).ok_or_else(|| no_query(line))
}

/// A query that a scenario can't say.
pub(super) fn no_query(line: usize) -> ImportError {
    let fix = "write its parameters into the scenario by hand, or encode them as UTF-8";
    ImportError::at_line(line, url::NO_PAIRS, fix)
}
