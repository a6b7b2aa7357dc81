//! Step 2e before: diesel on libpq, called on the loop.

use diesel::sql_types::{Nullable, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

use super::auth::SELECT_USER_BY_UID;
use super::postgres::{PostgresStores, store_error};
use super::statement::{Bind, Statement};
use crate::auth::GITHUB;
use crate::repositories::{HubAccount, Known, Project};
use crate::stores::StoreFuture;
use crate::stores::repositories::RepositoryStore;

pub(super) const SELECT_USER_REPOSITORIES: &str =
    include_str!("../../../sql/select_user_repositories.sql");
pub(super) const SELECT_HUB_ACCOUNT: &str = include_str!("../../../sql/select_hub_account.sql");
pub(super) const SELECT_PROJECT: &str = include_str!("../../../sql/select_project.sql");

impl RepositoryStore for PostgresStores {
    fn known<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Known> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            known(&mut connection, uid).map_err(store_error)
        })
    }

    fn project<'a>(&'a self, id: &'a str, uid: &'a str) -> StoreFuture<'a, Option<Project>> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            let binds = [Bind::Text(id), Bind::Text(uid)];
            let rows: Vec<(String, String)> =
                Statement::<(Text, Text)>::new(SELECT_PROJECT, &binds)
                    .load(&mut *connection)
                    .map_err(store_error)?;
            let row = rows.into_iter().next();
            Ok(row.map(|(repo_name, branch_name)| Project {
                repo_name,
                branch_name,
            }))
        })
    }
}

fn known(connection: &mut PgConnection, uid: &str) -> QueryResult<Known> {
    let projects = Statement::<(Text, Text)>::new(SELECT_USER_REPOSITORIES, &[Bind::Text(uid)])
        .load(connection)?;
    let mut account = account(connection, uid)?;
    if account.is_some() {
        // The original looks both up again where it wants the account's token.
        account = self::account(connection, uid)?;
    }
    Ok(Known { projects, account })
}

/// The user, then their account.
fn account(connection: &mut PgConnection, uid: &str) -> QueryResult<Option<HubAccount>> {
    let users: Vec<(String, String, Option<String>)> =
        Statement::<(Text, Text, Nullable<Text>)>::new(SELECT_USER_BY_UID, &[Bind::Text(uid)])
            .load(connection)?;
    if users.is_empty() {
        return Ok(None);
    }
    let binds = [Bind::Text(uid), Bind::Text(GITHUB)];
    let accounts: Vec<(String, Option<String>)> =
        Statement::<(Text, Nullable<Text>)>::new(SELECT_HUB_ACCOUNT, &binds).load(connection)?;
    let account = accounts.into_iter().next();
    Ok(account.map(|(provider_uid, login)| HubAccount {
        provider_uid,
        login,
    }))
}
