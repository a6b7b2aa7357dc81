//! Variables: where their values come from, and texts that use them.

/// A variable's value.
#[derive(Debug, Clone)]
pub enum Var {
    /// The same for every request.
    Value(Value),
    /// A default that uses built-in variables, as `"u-${user}"`.
    Template(Template),
    /// One row per user and iteration, from a CSV or JSONL file.
    Feeder(Feeder),
    /// Drawn anew for each iteration, by the run's seed.
    Random(Random),
    /// Optional and not given: headers that need it are left out.
    Absent,
}

/// A value and whether it may be shown.
#[derive(Clone)]
pub struct Value {
    /// The value; strings keep their type as `"${n}"` alone does.
    pub value: serde_json::Value,
    /// Never printed or recorded.
    pub secret: bool,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.secret {
            f.write_str("Value(secret)")
        } else {
            write!(f, "Value({})", self.value)
        }
    }
}

/// Rows of a file.
#[derive(Clone)]
pub struct Feeder {
    /// The column's values.
    pub values: Vec<String>,
    /// How a row is chosen. Feeders of one file with one pick stay on one row.
    pub pick: Pick,
}

/// Without the rows, which may be secrets.
impl std::fmt::Debug for Feeder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Feeder({} rows, {:?})", self.values.len(), self.pick)
    }
}

/// How a feeder's row is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// In order, over all users.
    RoundRobin,
    /// Seeded random.
    Random,
    /// Row = user, wrapped.
    PerUser,
}

/// A value that is drawn for each iteration.
#[derive(Clone)]
pub struct Random {
    /// The variable's own number, so that two variables of one kind differ.
    pub salt: u64,
    /// What is drawn.
    pub kind: RandomKind,
    /// Never printed or recorded.
    pub secret: bool,
}

/// Without the choices, which may be secrets.
impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.kind {
            RandomKind::Uuid => "uuid",
            RandomKind::Int { .. } => "int",
            RandomKind::Text { .. } => "text",
            RandomKind::Choice(_) => "choice",
        };
        write!(f, "Random({kind})")
    }
}

/// What a random variable draws.
#[derive(Debug, Clone, PartialEq)]
pub enum RandomKind {
    /// A UUID of version 4.
    Uuid,
    /// A whole number, both ends included.
    Int {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// Letters and digits.
    Text {
        /// How many.
        length: usize,
    },
    /// One of these values; never empty.
    Choice(Vec<serde_json::Value>),
}

/// A text with `${variables}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Literal and variable parts, in order.
    pub parts: Vec<Part>,
}

/// One part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it stands.
    Literal(String),
    /// A variable's name.
    Variable(String),
}
