//! One answer, in memory that a user keeps from request to request.

/// Status and header fields of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    status: u16,
    names: String,
    values: Vec<u8>,
    /// Where each field ends in the two above.
    ends: Vec<(usize, usize)>,
}

impl Head {
    /// Begins another head; memory is kept.
    pub(super) fn begin(&mut self, status: u16) {
        self.status = status;
        self.names.clear();
        self.values.clear();
        self.ends.clear();
    }

    /// Adds a field behind the others. A value that was folded over several lines becomes one, as
    /// whoever reads an answer has to see it (RFC 9112 §5.2).
    pub(super) fn push(&mut self, name: &str, value: &[u8]) {
        self.names.push_str(name);
        let begin = self.values.len();
        self.values.extend_from_slice(value);
        for byte in &mut self.values[begin..] {
            if matches!(*byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.ends.push((self.names.len(), self.values.len()));
    }

    /// The status; 0 before the first answer.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The fields in the order of the answer, names as the service writes them.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let begins = std::iter::once((0, 0)).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|((name, value), end)| (&self.names[name..end.0], &self.values[value..end.1]))
    }
}

/// A complete answer, or as much of a stream as the scenario wants.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) head: Head,
    /// Whole if that was asked for, else its beginning.
    pub(super) body: Vec<u8>,
    /// Length of the whole body.
    pub(super) body_bytes: u64,
    /// There may be more of it, which nobody wants: the connection is of no use any more.
    pub(super) is_left: bool,
}

impl Answer {
    /// Memory for bodies that a user keeps; what is larger is given back, since thousands of users
    /// may each have had one large answer.
    const KEPT_BYTES_MAX: usize = 64 * 1024;

    /// Forgets the answer before.
    pub(super) fn reset(&mut self) {
        self.head.begin(0);
        self.body.clear();
        self.body.shrink_to(Self::KEPT_BYTES_MAX);
        self.body_bytes = 0;
        self.is_left = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_value_is_one_line() {
        let mut head = Head::default();
        head.push("x-folded", b"first\r\n  second\n\tthird");
        let fields: Vec<(&str, &[u8])> = head.fields().collect();
        assert_eq!(fields, [("x-folded", &b"first    second \tthird"[..])]);
    }

    #[test]
    fn fields_come_back_as_they_were_put_in() {
        let mut head = Head::default();
        for _ in 0..2 {
            head.begin(204);
            head.push("etag", b"\"a\"");
            head.push("x-empty", b"");
            head.push("etag", b"\xff");
            let fields: Vec<(&str, &[u8])> = head.fields().collect();
            let expected: [(&str, &[u8]); 3] =
                [("etag", b"\"a\""), ("x-empty", b""), ("etag", b"\xff")];
            assert_eq!((head.status(), fields.as_slice()), (204, &expected[..]));
        }
    }
}
