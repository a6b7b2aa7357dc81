//! What a database's errors mean in the domain's words.

use crate::domain::{Invalid, SandboxError, Subject};

/// The service's name in errors.
const SERVICE: &str = "the store";

/// A statement that wasn't answered, or that the database can't carry out now.
pub(super) fn unavailable(doing: &'static str) -> impl FnOnce(sqlx::Error) -> SandboxError {
    move |source| SandboxError::Unavailable {
        service: SERVICE,
        doing,
        source: Box::new(source),
    }
}

/// The store was closed by its owner.
pub(super) fn closed(doing: &'static str) -> SandboxError {
    unavailable(doing)(sqlx::Error::PoolClosed)
}

/// A row that can't be read.
pub(super) fn damaged(subject: Subject) -> impl FnOnce(Invalid) -> SandboxError {
    move |source| SandboxError::Damaged { subject, source }
}

/// An insert that failed: because of a row with its id or with its key, or for a reason of the
/// database's own.
pub(super) fn insert_failed(
    doing: &'static str,
    id: Subject,
    key: Subject,
) -> impl FnOnce(sqlx::Error) -> SandboxError {
    move |error| match violated(&error) {
        Some(Unique::Id) => SandboxError::AlreadyExists(id),
        Some(Unique::Key) => SandboxError::AlreadyExists(key),
        None => unavailable(doing)(error),
    }
}

/// Of what there may be one row only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unique {
    Id,
    Key,
}

/// Which uniqueness an insert would have broken, if that is why it failed.
fn violated(error: &sqlx::Error) -> Option<Unique> {
    let database = error.as_database_error()?;
    if !database.is_unique_violation() {
        return None;
    }
    let is_id = match database.constraint() {
        // PostgreSQL names the index.
        Some(index) => index.ends_with("_pkey"),
        // SQLite says which columns: `UNIQUE constraint failed: sandbox_runtimes.id`.
        None => database.message().ends_with(".id"),
    };
    Some(if is_id { Unique::Id } else { Unique::Key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RuntimeId;

    #[test]
    fn what_is_no_violation_is_unavailability_with_its_cause() {
        let subject = Subject::Runtime(RuntimeId::generate());
        let failed = insert_failed("writing a runtime", subject.clone(), subject);
        let text = failed(sqlx::Error::PoolTimedOut).to_string();
        assert!(
            text.starts_with("the store is unavailable while writing a runtime: pool timed out"),
            "{text}"
        );
    }
}
