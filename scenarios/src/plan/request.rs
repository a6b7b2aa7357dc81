//! One request: what is sent, what is taken from its answer, how long its user pauses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Expect, Stream, Template};
use crate::pattern::Pattern;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its name: the endpoint in the record.
    pub name: String,
    /// HTTP method.
    pub method: String,
    /// A name of [`Plan::hosts`](super::Plan::hosts); `None`: the target.
    pub host: Option<String>,
    /// Its weight among its neighbours that have one, of which each iteration sends one.
    pub weight: Option<f64>,
    /// What the weight amounts to; see [`Scope::takes`](crate::scope::Scope::takes).
    pub alternative: Option<Alternative>,
    /// Path, starting with `/`.
    pub path: Template,
    /// Query parameters, in the file's order, not yet percent-encoded.
    pub query: Vec<(String, Template)>,
    /// Headers, defaults merged in, names lower-case.
    pub headers: Vec<(String, Template)>,
    /// What is sent.
    pub body: Body,
    /// The functional check.
    pub expect: Expect,
    /// Variables taken from the answer.
    pub extract: BTreeMap<String, Extract>,
    /// How the body is read as a stream, if it is one.
    pub stream: Option<Stream>,
    /// Pause before the next request; drawn by [`Scope::think`](crate::scope::Scope::think).
    pub think: Think,
    /// Longer is an error.
    pub timeout: Duration,
    /// False when its times are shown and not judged.
    pub judged: bool,
}

/// A request's place among the neighbours of which each iteration sends one.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The first of these neighbours: its index among the plan's requests.
    pub first: usize,
    /// Its part of the way from 0 to 1.
    pub share: Range<f64>,
}

/// How long a user pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Always as long; zero by default.
    Fixed(Duration),
    /// Anything between the two, each as likely.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Exponential, as between independent events. No draw is longer than 37 means.
    Exponential {
        /// The mean.
        mean: Duration,
    },
}

impl Default for Think {
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

/// A variable taken from an answer.
#[derive(Debug, Clone)]
pub struct Extract {
    /// Where it stands.
    pub from: ExtractFrom,
    /// What of that is taken; `None`: all of it.
    pub pattern: Option<Pattern>,
    /// Never printed or recorded.
    pub secret: bool,
}

/// Where in an answer a variable stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractFrom {
    /// At a JSON pointer of the body.
    Json(String),
    /// In a header; its name in lower case. Of several, the first that the pattern fits.
    Header(String),
    /// In the body's text; always with a pattern.
    Body,
    /// At a JSON pointer of an item of the stream.
    Item {
        /// The pointer.
        pointer: String,
        /// In which of the items that have it.
        which: Which,
    },
}

/// One of a stream's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last.
    Last,
}

/// A request's body.
#[derive(Debug, Clone)]
pub enum Body {
    /// None.
    Empty,
    /// JSON, with templates in its strings.
    Json(JsonBody),
    /// URL-encoded form.
    Form(Vec<(String, Template)>),
    /// Multipart form.
    Multipart(Vec<FormPart>),
    /// Any text, with its content type.
    Raw {
        /// Content type.
        content_type: String,
        /// The text.
        text: Template,
    },
    /// A file's bytes, as they are.
    File {
        /// Content type.
        content_type: String,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
}

/// One part of a multipart form.
#[derive(Clone)]
pub struct FormPart {
    /// The field's name.
    pub name: String,
    /// The name that is told of the file.
    pub filename: Option<String>,
    /// Its content type, where one is told.
    pub content_type: Option<String>,
    /// What it holds.
    pub content: FormContent,
}

/// What a part of a multipart form holds.
#[derive(Clone)]
pub enum FormContent {
    /// A text with variables.
    Text(Template),
    /// A file's bytes, as they are.
    File(Arc<[u8]>),
}

/// Without the bytes of files.
impl std::fmt::Debug for FormPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("FormPart");
        shown.field("name", &self.name);
        match &self.content {
            FormContent::Text(text) => shown.field("text", text),
            FormContent::File(bytes) => shown.field("file_bytes", &bytes.len()),
        };
        shown.finish_non_exhaustive()
    }
}

/// A JSON document, serialised around its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonBody {
    /// Text and variables, in order.
    pub parts: Vec<JsonPart>,
}

/// One part of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonPart {
    /// As it stands, already JSON.
    Text(String),
    /// A variable that is a whole value and keeps its type.
    Value(String),
    /// A variable inside a string.
    Inside(String),
}
