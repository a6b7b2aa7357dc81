//! Runs the SQL files that both variants share through diesel, as prepared statements.
//!
//! `diesel::sql_query` would parse its text anew at each call, a round trip more than the async
//! variant makes; a fragment of our own is prepared once per connection, as sqlx' are.

use std::marker::PhantomData;

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, Bool, Double, Nullable, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

/// A value for a placeholder.
#[derive(Debug)]
pub(super) enum Bind<'a> {
    /// `text`
    Text(&'a str),
    /// `text` or NULL
    OptionalText(Option<&'a str>),
    /// `text[]`
    Texts(&'a [String]),
    /// `boolean`
    Bool(bool),
    /// `double precision`
    Double(f64),
}

/// A text with `$1`, `$2`, … each once and in order, its values, and the SQL types of its rows.
#[derive(Debug)]
pub(super) struct Statement<'a, Row> {
    sql: &'static str,
    binds: &'a [Bind<'a>],
    row: PhantomData<fn() -> Row>,
}

impl<'a, Row> Statement<'a, Row> {
    pub(super) fn new(sql: &'static str, binds: &'a [Bind<'a>]) -> Self {
        Self {
            sql,
            binds,
            row: PhantomData,
        }
    }
}

impl<Row> QueryFragment<Pg> for Statement<'_, Row> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let mut pieces = self.sql.split('$');
        out.push_sql(pieces.next().unwrap_or_default());
        for (piece, bind) in pieces.zip(self.binds) {
            match bind {
                Bind::Text(text) => out.push_bind_param::<Text, _>(*text)?,
                Bind::OptionalText(text) => out.push_bind_param::<Nullable<Text>, _>(text)?,
                Bind::Bool(yes) => out.push_bind_param::<Bool, _>(yes)?,
                Bind::Texts(texts) => out.push_bind_param::<Array<Text>, _>(texts)?,
                Bind::Double(number) => out.push_bind_param::<Double, _>(number)?,
            }
            out.push_sql(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        Ok(())
    }
}

impl<Row> QueryId for Statement<'_, Row> {
    // Statements differ by text, not by type: diesel then finds a prepared one by its text.
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Row> Query for Statement<'_, Row> {
    type SqlType = Row;
}

impl<Row> RunQueryDsl<PgConnection> for Statement<'_, Row> {}

#[cfg(test)]
mod tests {
    use super::super::{auth, history, postgres, repositories, search, sharing};
    use super::*;

    #[test]
    fn placeholders_of_the_shared_files_come_once_and_in_order() {
        for (sql, binds) in [
            (postgres::USAGE, 3),
            (postgres::SELECT_PROJECTS, 1),
            (postgres::INSERT_CONVERSATION, 6),
            (postgres::INSERT_SYSTEM_MESSAGE, 3),
            (history::INSERT_PARTIAL_MESSAGE, 4),
            (sharing::SELECT_SHARING, 2),
            (sharing::UPDATE_SHARING, 3),
            (auth::SELECT_USER_BY_UID, 1),
            (auth::SELECT_USER_BY_EMAIL, 1),
            (auth::SELECT_PROVIDERS, 1),
            (auth::SELECT_PROVIDER, 2),
            (auth::SELECT_PROVIDER_BY_UID, 2),
            (auth::INSERT_USER, 4),
            (auth::INSERT_PROVIDER, 8),
            (auth::INSERT_PENDING_LINK, 7),
            (auth::INSERT_AUDIT_EVENT, 7),
            (auth::UPDATE_PROVIDER_USED, 1),
            (auth::UPDATE_LAST_LOGIN, 1),
            (repositories::SELECT_USER_REPOSITORIES, 1),
            (repositories::SELECT_HUB_ACCOUNT, 2),
            (repositories::SELECT_PROJECT, 2),
            (search::SELECT_PROJECT_OF_USER, 2),
            (search::SEARCH, 4),
            (search::SELECT_USER_OF_KEY, 1),
        ] {
            let numbers: Vec<String> = sql
                .split('$')
                .skip(1)
                .map(|piece| piece.chars().take_while(char::is_ascii_digit).collect())
                .collect();
            let expected: Vec<String> = (1..=binds).map(|n: u32| n.to_string()).collect();
            assert_eq!(numbers, expected, "{sql}");
        }
    }

    #[test]
    fn the_text_is_rebuilt_letter_for_letter() {
        let texts = ["a".to_owned()];
        let binds = [Bind::Texts(&texts)];
        let statement: Statement<'_, ()> = Statement::new("SELECT $1 :: text[] AS x", &binds);
        let shown = diesel::debug_query::<Pg, _>(&statement).to_string();
        assert!(shown.starts_with("SELECT $1 :: text[] AS x"), "{shown}");
    }
}
