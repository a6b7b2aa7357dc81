//! The forms in which the peers stream items: what one item looks like on the wire.

use crate::stream_fault;

/// How items follow each other in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFormat {
    /// Server-sent events.
    Sse,
    /// One JSON document per line.
    Ndjson,
    /// JSON objects with nothing between them, called `text/event-stream` all the same, as the
    /// service being migrated does.
    JsonObjects,
    /// Text without any form.
    Chunks,
}

impl StreamFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sse, Self::Ndjson, Self::JsonObjects, Self::Chunks];

    /// As scenario files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Ndjson => "ndjson",
            Self::JsonObjects => "json-objects",
            Self::Chunks => "chunks",
        }
    }

    /// What the torture server's `/stream/complete` and `/stream-cut` carry in this form.
    #[must_use]
    pub fn complete_body(self) -> String {
        stream_fault::body(self)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Sse | Self::JsonObjects => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
            Self::Chunks => "text/plain",
        }
    }

    /// One item's text as it stands in the body, with what ends it.
    pub(crate) fn framed(self, item: &str) -> String {
        match self {
            Self::Sse => format!("data: {item}\n\n"),
            Self::Ndjson => format!("{item}\n"),
            Self::JsonObjects | Self::Chunks => item.to_owned(),
        }
    }

    /// The head of a streamed answer of unknown length.
    pub(crate) fn head(self) -> String {
        head(self.content_type())
    }
}

/// The head of a streamed answer of unknown length and that content type.
pub(crate) fn head(content_type: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// One chunk of HTTP's chunked form.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// The chunk that ends a body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
