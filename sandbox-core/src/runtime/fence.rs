//! Whose command may begin in a runtime, and whose must be gone before: the supervisor's judgement on
//! what each command says of the lock that it runs under.

use super::alarm::{NEVER_US, moment_us};
use crate::ports::locks::{Hold, LockClass, Reliance};

/// What a command says of its lock, as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard {
    /// With whom the lock is shared.
    pub(super) class: LockClass,
    /// The number of its holder's token.
    pub(super) token: u64,
    /// Until when the lock may be relied on, by the boot clock. It is a moment and not a time that is
    /// left: a packet that lay about while its sender was stopped mustn't prolong anything.
    pub(super) until_us: u64,
}

impl Guard {
    /// What is to be said of a hold now.
    pub(super) fn of(hold: &Hold) -> Self {
        let until = hold.reliance.as_ref().map(Reliance::until);
        Self {
            class: hold.class,
            token: hold.token.get(),
            until_us: until.map_or(NEVER_US, moment_us),
        }
    }

    /// Has its holder lost the lock, if `newer` has it?
    pub(super) fn yields_to(self, newer: Self) -> bool {
        let they_share = self.class == LockClass::Read && newer.class == LockClass::Read;
        self.token < newer.token && !they_share
    }
}

/// The newest tokens that came to a runtime. Nobody's came yet, at first.
#[derive(Debug, Default)]
pub(super) struct Fence {
    newest: u64,
    newest_write: u64,
}

impl Fence {
    /// Lets a command in, or says whose token came before it that is newer. Readers don't mind each
    /// other, whoever was first.
    pub(super) fn admit(&mut self, guard: Guard) -> Result<(), u64> {
        let (newest, is_write) = match guard.class {
            LockClass::Read => (self.newest_write, false),
            LockClass::Write => (self.newest, true),
        };
        if guard.token < newest {
            return Err(newest);
        }
        self.newest = self.newest.max(guard.token);
        if is_write {
            self.newest_write = guard.token;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(class: LockClass, token: u64) -> Guard {
        Guard {
            class,
            token,
            until_us: NEVER_US,
        }
    }

    #[test]
    fn whoever_has_an_older_token_is_refused_and_readers_only_after_writers() {
        use LockClass::{Read, Write};
        let mut fence = Fence::default();
        let steps = [
            (Write, 5, Ok(())),
            (Write, 5, Ok(())), // its holder's next command
            (Write, 4, Err(5)),
            (Read, 4, Err(5)),
            (Read, 9, Ok(())),
            (Read, 7, Ok(())),
            (Write, 8, Err(9)),
            (Write, 10, Ok(())),
            (Read, 9, Err(10)),
        ];
        for (class, token, expected) in steps {
            let admitted = fence.admit(guard(class, token));
            assert_eq!(admitted, expected, "{class:?} {token}");
        }
    }

    #[test]
    fn readers_share_and_all_others_yield_to_newer_ones() {
        use LockClass::{Read, Write};
        let cases = [
            (Read, 1, Read, 2, false),
            (Read, 1, Write, 2, true),
            (Write, 1, Read, 2, true),
            (Write, 1, Write, 2, true),
            (Write, 2, Write, 2, false),
            (Write, 3, Write, 2, false),
        ];
        for (class, token, newer_class, newer_token, expected) in cases {
            let newer = guard(newer_class, newer_token);
            let yields = guard(class, token).yields_to(newer);
            assert_eq!(yields, expected, "{class:?} {token}, then {newer:?}");
        }
    }
}
