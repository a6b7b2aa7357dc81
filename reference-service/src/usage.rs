//! How much of their plan a user has used, and what the plan allows.

use std::collections::BTreeMap;

/// Seconds in the window of the usage check: 30 days.
const CHECK_WINDOW_S: f64 = 30.0 * 24.0 * 3600.0;

/// A span of time, ends included, in seconds since 1970 (as PostgreSQL's `to_timestamp` takes them).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// First moment.
    pub from_s: f64,
    /// Last moment.
    pub to_s: f64,
}

impl Window {
    /// The 30 days up to a moment.
    #[must_use]
    pub fn thirty_days_before(moment_s: f64) -> Self {
        Self {
            from_s: moment_s - CHECK_WINDOW_S,
            to_s: moment_s,
        }
    }
}

/// A subscription plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// 50 messages in 30 days.
    Free,
    /// 500 messages in 30 days.
    Pro,
    /// No limit; for seeded users under load.
    Unlimited,
}

impl Plan {
    /// Reads the column's value; a plan that this version doesn't know gets the smallest limit.
    #[must_use]
    pub fn from_column(text: &str) -> Self {
        match text {
            "pro" => Self::Pro,
            "unlimited" => Self::Unlimited,
            _ => Self::Free,
        }
    }

    /// Messages at which the next request is refused.
    #[must_use]
    pub fn limit(self) -> Option<i64> {
        match self {
            Self::Free => Some(50),
            Self::Pro => Some(500),
            Self::Unlimited => None,
        }
    }
}

/// One row of `sql/usage.sql`: plan, agent, messages. The latter two are NULL for a user without
/// messages.
pub type UsageRow = (String, Option<String>, Option<i64>);

/// What a user has used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Their plan.
    pub plan: Plan,
    /// Messages by agent; a conversation with n agents counts n times.
    pub messages_by_agent: BTreeMap<String, i64>,
}

impl Usage {
    /// Gathers the aggregate's rows. No row at all is a user without a record: free, nothing used.
    #[must_use]
    pub fn from_rows(rows: Vec<UsageRow>) -> Self {
        let plan = rows
            .first()
            .map_or(Plan::Free, |(plan, _, _)| Plan::from_column(plan));
        let messages_by_agent = rows
            .into_iter()
            .filter_map(|(_, agent, messages)| Some((agent?, messages?)))
            .collect();
        Self {
            plan,
            messages_by_agent,
        }
    }

    /// Messages in all.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.messages_by_agent.values().sum()
    }

    /// Whether the plan allows no further message.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.plan.limit().is_some_and(|limit| self.total() >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(plan: &str, messages: i64) -> Usage {
        Usage::from_rows(vec![(
            plan.to_owned(),
            Some("a-1".to_owned()),
            Some(messages),
        )])
    }

    #[test]
    fn the_limit_itself_is_over() {
        assert!(!used("free", 49).is_over_limit());
        assert!(used("free", 50).is_over_limit());
        assert!(!used("pro", 499).is_over_limit());
        assert!(used("pro", 500).is_over_limit());
        assert!(!used("unlimited", 1_000_000).is_over_limit());
        assert!(used("enterprise", 50).is_over_limit());
    }

    #[test]
    fn agents_add_up_and_a_user_without_messages_has_none() {
        let both = Usage::from_rows(vec![
            ("free".to_owned(), Some("a-1".to_owned()), Some(30)),
            ("free".to_owned(), Some("a-2".to_owned()), Some(20)),
        ]);
        assert_eq!(both.total(), 50);
        let none = Usage::from_rows(vec![("pro".to_owned(), None, None)]);
        assert_eq!((none.plan, none.total()), (Plan::Pro, 0));
        assert_eq!(Usage::from_rows(Vec::new()).plan, Plan::Free);
    }
}
