//! The servers a migration is measured on: a private Redis and a private PostgreSQL, or the
//! caller's own, and the state of both set back between blocks.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;

use crate::guard::Guard;
use crate::postgres::{PostgresRecipe, SUPERUSER, execute};
use crate::redis::{RedisRecipe, flush};
use crate::server::Server;
use crate::server_url::ServerUrl;

/// Databases on somebody's own server are only touched when their names begin like this.
const OWN_PREFIX: &str = "unstall_";

/// Which servers to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Use this PostgreSQL instead of a private one.
    pub database_url: Option<String>,
    /// Use this Redis instead of a private one.
    pub redis_url: Option<String>,
}

impl Options {
    /// Takes `DATABASE_URL` and `REDIS_URL` from the environment; unset or empty means private.
    #[must_use]
    pub fn from_env() -> Self {
        let set = |name| {
            std::env::var(name)
                .ok()
                .filter(|value: &String| !value.is_empty())
        };
        Self {
            database_url: set("DATABASE_URL"),
            redis_url: set("REDIS_URL"),
        }
    }
}

/// A Redis and a PostgreSQL. Private ones are gone when this is dropped, and when the process ends
/// in any way.
#[derive(Debug)]
pub struct Testbed {
    // Dropped first: the guard ends the servers, then their zombies are reaped.
    guard: Guard,
    redis: Place,
    postgres: Place,
    folder: PathBuf,
}

/// One server's address, and the server when it is private.
#[derive(Debug)]
struct Place {
    url: ServerUrl,
    address: SocketAddr,
    server: Option<Server>,
}

impl Place {
    fn private(
        &mut self,
        action: &str,
        variable: &'static str,
    ) -> Result<&mut Server, TestbedError> {
        self.server
            .as_mut()
            .ok_or_else(|| TestbedError::NotPrivate {
                action: action.to_owned(),
                variable,
            })
    }
}

/// Why a testbed couldn't be started or set back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A server's program isn't installed.
    #[error(
        "{name} wasn't found on PATH or in /usr/lib/postgresql/*/bin; install it (Debian: apt-get install {package})"
    )]
    MissingProgram {
        /// The program.
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A server didn't come up.
    #[error("{server} didn't start: {reason}")]
    Start {
        /// The server's program.
        server: &'static str,
        /// What happened, with the end of its log.
        reason: String,
    },
    /// A program ended with an error.
    #[error("{command} failed ({status}): {said}")]
    Command {
        /// The program.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its output.
        said: String,
    },
    /// PostgreSQL refuses root and there's nobody else to run it.
    #[error(
        "PostgreSQL can't run as root, and there is neither a user postgres nor a user nobody; run as another user or set DATABASE_URL"
    )]
    NoServerUser,
    /// An address can't be understood. The address isn't shown: it may hold a password.
    #[error("{source_name} isn't an address like scheme://user@host:port/database")]
    Url {
        /// The variable or option it came from.
        source_name: &'static str,
    },
    /// The caller's own server would lose data.
    #[error(
        "refused to {action}: the server isn't private (unset {variable} to use a private one)"
    )]
    NotPrivate {
        /// What was asked for.
        action: String,
        /// The variable that names the server.
        variable: &'static str,
    },
    /// A database name that would need quoting.
    #[error(
        "{name:?} can't be a database here: use 1–63 characters of a–z, 0–9 and _, not a digit first"
    )]
    DatabaseName {
        /// The name asked for.
        name: String,
    },
    /// The caller's own preparation of a template failed.
    #[error("preparing the template database {name} failed: {source}")]
    Template {
        /// The template.
        name: String,
        /// The caller's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The operating system refused something.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl TestbedError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

impl Testbed {
    /// Starts what `options` doesn't name, both servers at the same time, and waits until they're
    /// ready. Takes under a second on a quiet machine.
    ///
    /// # Errors
    /// When a program is missing, a server doesn't come up, or an address can't be understood.
    pub fn start(options: &Options) -> Result<Self, TestbedError> {
        let guard = Guard::new().map_err(TestbedError::io("starting the guard"))?;
        let folder =
            create_folder(&guard).map_err(TestbedError::io("creating the testbed's folder"))?;
        let (redis, postgres) = thread::scope(|scope| {
            let redis = scope.spawn(|| redis_place(options, &folder, &guard));
            let postgres = postgres_place(options, &folder, &guard);
            (redis.join(), postgres)
        });
        let redis = redis.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (redis, postgres) {
            (Ok(redis), Ok(postgres)) => Ok(Self {
                guard,
                redis,
                postgres,
                folder,
            }),
            (Err(error), other) | (other, Err(error)) => {
                // Before the server that did start, as in the fields' order: it is waited for.
                drop(guard);
                drop(other);
                Err(error)
            }
        }
    }

    /// Is the Redis private, so that it may be emptied?
    #[must_use]
    pub fn redis_is_private(&self) -> bool {
        self.redis.server.is_some()
    }

    /// Is the PostgreSQL private?
    #[must_use]
    pub fn postgres_is_private(&self) -> bool {
        self.postgres.server.is_some()
    }

    /// Redis' own address, as the target of a [`crate::DelayProxy`].
    #[must_use]
    pub fn redis_address(&self) -> SocketAddr {
        self.redis.address
    }

    /// PostgreSQL's own address, as the target of a [`crate::DelayProxy`].
    #[must_use]
    pub fn postgres_address(&self) -> SocketAddr {
        self.postgres.address
    }

    /// `redis://…`, straight to the server.
    #[must_use]
    pub fn redis_url(&self) -> String {
        self.redis.url.to_string()
    }

    /// `redis://…` through the proxy at `address`.
    #[must_use]
    pub fn redis_url_through(&self, address: SocketAddr) -> String {
        self.redis.url.clone().at(address).to_string()
    }

    /// `postgresql://…/database`, straight to the server.
    #[must_use]
    pub fn database_url(&self, database: &str) -> String {
        self.postgres
            .url
            .clone()
            .with_database(database)
            .to_string()
    }

    /// `postgresql://…/database` through the proxy at `address`.
    #[must_use]
    pub fn database_url_through(&self, address: SocketAddr, database: &str) -> String {
        self.postgres
            .url
            .clone()
            .at(address)
            .with_database(database)
            .to_string()
    }

    /// A folder that is removed with the testbed.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The guard, for further process groups that should end with this testbed.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Creates an empty database, lets `prepare` fill it (it gets the URL), and closes it for
    /// connections, so that it can be cloned at any time. An older one of that name is replaced.
    /// On a server that isn't private it stays until [`Testbed::drop_database`].
    ///
    /// # Errors
    /// When the name is refused, the server refuses, or `prepare` fails.
    pub fn create_template<F>(&self, name: &str, prepare: F) -> Result<(), TestbedError>
    where
        F: FnOnce(&str) -> Result<(), Box<dyn Error + Send + Sync>>,
    {
        self.check_name(name)?;
        self.administer(&[
            &drop_statement(name),
            &format!("CREATE DATABASE {name} TEMPLATE template0"),
        ])?;
        let url = self.database_url(name);
        prepare(&url).map_err(|source| TestbedError::Template {
            name: name.to_owned(),
            source,
        })?;
        // Statistics are cloned with the data: every clone gets the same plans from the first query on.
        execute(&url, &["VACUUM (ANALYZE)"])?;
        self.administer(&[
            &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"),
            // A pool of the preparation may not have let go yet; it would hinder the cloning.
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
        ])?;
        if self.postgres_is_private() {
            // So that the first blocks don't share the disk with the preparation. Elsewhere only
            // some roles may ask for it.
            self.administer(&["CHECKPOINT"])?;
        }
        Ok(())
    }

    /// Makes `database` a fresh copy of `template`, throwing out whoever is connected to the old
    /// one, and gives its URL. Takes about 50 ms.
    ///
    /// # Errors
    /// When a name is refused, or the server refuses.
    pub fn reset_database(&self, template: &str, database: &str) -> Result<String, TestbedError> {
        self.check_name(template)?;
        self.check_name(database)?;
        self.administer(&[
            &drop_statement(database),
            &format!("CREATE DATABASE {database} TEMPLATE {template}"),
        ])?;
        Ok(self.database_url(database))
    }

    /// Removes a database, throwing out whoever is connected.
    ///
    /// # Errors
    /// When the name is refused, or the server refuses.
    pub fn drop_database(&self, database: &str) -> Result<(), TestbedError> {
        self.check_name(database)?;
        self.administer(&[&drop_statement(database)])
    }

    /// Empties Redis: private servers only.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own Redis; or when it doesn't answer.
    pub fn flush_redis(&self) -> Result<(), TestbedError> {
        if !self.redis_is_private() {
            return Err(TestbedError::NotPrivate {
                action: "empty Redis".to_owned(),
                variable: "REDIS_URL",
            });
        }
        flush(self.redis.address).map_err(TestbedError::io("emptying Redis"))
    }

    /// Kills Redis: private servers only. Until it is revived nobody answers on its port.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own Redis.
    pub fn kill_redis(&mut self) -> Result<(), TestbedError> {
        let server = self.redis.private("kill Redis", "REDIS_URL")?;
        server.kill::<RedisRecipe>(&self.guard)
    }

    /// Starts the Redis that was killed anew, empty, on its port. It returns when it answers.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own Redis; or when it doesn't come up.
    pub fn revive_redis(&mut self) -> Result<(), TestbedError> {
        let server = self.redis.private("start Redis", "REDIS_URL")?;
        server.revive(&RedisRecipe::new(&self.folder)?, &self.guard)
    }

    /// Kills Redis and starts it anew, empty, on its port: private servers only.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own Redis; or when it doesn't come up.
    pub fn restart_redis(&mut self) -> Result<(), TestbedError> {
        self.kill_redis()?;
        self.revive_redis()
    }

    /// Ends PostgreSQL as a crash does: private servers only. Its clients lose their connections
    /// and what they hadn't committed; until it is revived nobody answers on its port.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own PostgreSQL.
    pub fn kill_postgres(&mut self) -> Result<(), TestbedError> {
        let server = self.postgres.private("kill PostgreSQL", "DATABASE_URL")?;
        server.kill::<PostgresRecipe>(&self.guard)
    }

    /// Starts the PostgreSQL that was killed anew, with its data, on its port. It returns when it
    /// has recovered and answers.
    ///
    /// # Errors
    /// [`TestbedError::NotPrivate`] on the caller's own PostgreSQL; or when it doesn't come up.
    pub fn revive_postgres(&mut self) -> Result<(), TestbedError> {
        let server = self.postgres.private("start PostgreSQL", "DATABASE_URL")?;
        server.revive(&PostgresRecipe::of_cluster(&self.folder)?, &self.guard)
    }

    /// Runs statements on the maintenance database: the private one's `postgres`, or the database
    /// that the caller's URL names.
    fn administer(&self, statements: &[&str]) -> Result<(), TestbedError> {
        execute(&self.postgres.url.to_string(), statements)
    }

    fn check_name(&self, name: &str) -> Result<(), TestbedError> {
        let first = |c: char| c.is_ascii_lowercase() || c == '_';
        let fits = name.len() <= 63
            && name.starts_with(first)
            && name.chars().all(|c| first(c) || c.is_ascii_digit());
        if !fits {
            return Err(TestbedError::DatabaseName {
                name: name.to_owned(),
            });
        }
        if !self.postgres_is_private() && !name.starts_with(OWN_PREFIX) {
            return Err(TestbedError::NotPrivate {
                action: format!(
                    "replace the database {name}, whose name doesn't begin with {OWN_PREFIX}"
                ),
                variable: "DATABASE_URL",
            });
        }
        Ok(())
    }
}

fn redis_place(options: &Options, folder: &Path, guard: &Guard) -> Result<Place, TestbedError> {
    if let Some(url) = &options.redis_url {
        return own_place(url, "REDIS_URL", 6379);
    }
    let server = Server::start(&RedisRecipe::new(folder)?, guard)?;
    private_place(server, "redis://127.0.0.1")
}

fn postgres_place(options: &Options, folder: &Path, guard: &Guard) -> Result<Place, TestbedError> {
    if let Some(url) = &options.database_url {
        return own_place(url, "DATABASE_URL", 5432);
    }
    let server = Server::start(&PostgresRecipe::new(folder, guard)?, guard)?;
    private_place(
        server,
        &format!("postgresql://{SUPERUSER}@127.0.0.1/postgres"),
    )
}

fn own_place(url: &str, variable: &'static str, port: u16) -> Result<Place, TestbedError> {
    let url = ServerUrl::parse(url, variable)?;
    let address = url
        .resolve(port)
        .map_err(TestbedError::io("looking up a server's address"))?;
    Ok(Place {
        url,
        address,
        server: None,
    })
}

fn private_place(server: Server, url: &str) -> Result<Place, TestbedError> {
    let address = server.address();
    let url = ServerUrl::parse(url, "the private server's address")?.at(address);
    Ok(Place {
        url,
        address,
        server: Some(server),
    })
}

fn drop_statement(database: &str) -> String {
    format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)")
}

/// A folder that the guard removes. Open for passing through: PostgreSQL may run as another user.
fn create_folder(guard: &Guard) -> io::Result<PathBuf> {
    let folder = tempfile::Builder::new()
        .prefix("unstall-testbed-")
        .tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711))?;
    guard.remove_dir(folder.path())?;
    Ok(folder.keep())
}
