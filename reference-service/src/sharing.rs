//! With whom a conversation is shared, and how that changes.

/// Who may see a conversation: as its row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    /// `private` or `public`.
    pub visibility: String,
    /// The addresses that a private one is shared with, each once, in the order in which they came.
    pub emails: Vec<String>,
}

/// A change that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Anybody who knows the conversation's id may see it. Recipients stay as they are.
    Publish,
    /// Only these may see it, beside those who already may.
    ShareWith(Vec<String>),
    /// These may not see it any longer.
    Withdraw(Vec<String>),
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Written.
    Yes,
    /// There is no such conversation, or it isn't the caller's.
    NotFound,
    /// Nothing was written: none of the addresses to withdraw had access.
    NobodyHadAccess,
}

impl Change {
    /// The new state, or `None` if there is nobody to withdraw.
    ///
    /// Between reading and writing somebody else may share the same conversation, and the later
    /// writer wins: the service being migrated has no lock here either.
    #[must_use]
    pub fn applied_to(&self, sharing: Sharing) -> Option<Sharing> {
        let Sharing { visibility, emails } = sharing;
        match self {
            Self::Publish => Some(Sharing {
                visibility: "public".to_owned(),
                emails,
            }),
            Self::ShareWith(recipients) => Some(Sharing {
                visibility: "private".to_owned(),
                emails: with(emails, recipients),
            }),
            Self::Withdraw(recipients) => {
                let before = emails.len();
                let emails: Vec<String> = emails
                    .into_iter()
                    .filter(|email| !recipients.contains(email))
                    .collect();
                (emails.len() < before).then_some(Sharing { visibility, emails })
            }
        }
    }
}

fn with(mut emails: Vec<String>, recipients: &[String]) -> Vec<String> {
    for recipient in recipients {
        if !emails.contains(recipient) {
            emails.push(recipient.clone());
        }
    }
    emails
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn shared_with(visibility: &str, emails: &[&str]) -> Sharing {
        Sharing {
            visibility: visibility.to_owned(),
            emails: texts(emails),
        }
    }

    #[test]
    fn recipients_are_added_once_and_in_order() {
        let change = Change::ShareWith(texts(&["c@x.y", "a@x.y", "c@x.y"]));
        assert_eq!(
            change.applied_to(shared_with("public", &["a@x.y", "b@x.y"])),
            Some(shared_with("private", &["a@x.y", "b@x.y", "c@x.y"]))
        );
    }

    #[test]
    fn publishing_keeps_recipients() {
        assert_eq!(
            Change::Publish.applied_to(shared_with("private", &["a@x.y"])),
            Some(shared_with("public", &["a@x.y"]))
        );
    }

    #[test]
    fn access_is_withdrawn_from_those_who_had_it() {
        let change = Change::Withdraw(texts(&["a@x.y", "z@x.y"]));
        assert_eq!(
            change.applied_to(shared_with("public", &["a@x.y", "b@x.y"])),
            Some(shared_with("public", &["b@x.y"]))
        );
        assert_eq!(change.applied_to(shared_with("private", &["b@x.y"])), None);
        assert_eq!(change.applied_to(shared_with("private", &[])), None);
    }
}
