//! The parts of a `redis://` or `postgresql://` address that a testbed replaces: the place (to go
//! through a proxy) and the database.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::TestbedError;

/// `scheme://[user[:password]@]host[:port][/database][?query]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    scheme: String,
    /// With its `@`.
    credentials: String,
    place: String,
    database: String,
    /// With its `?`.
    query: String,
}

impl ServerUrl {
    /// Takes `text` apart; `source` names it in the error.
    ///
    /// # Errors
    /// [`TestbedError::Url`] when there is no scheme or no host.
    pub(crate) fn parse(text: &str, source: &'static str) -> Result<Self, TestbedError> {
        let wrong = || TestbedError::Url {
            source_name: source,
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let (rest, query) = cut(rest, '?');
        let (authority, path) = cut(rest, '/');
        let (credentials, place) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        if scheme.is_empty() || place.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            credentials: credentials.to_owned(),
            place: place.to_owned(),
            database: path.trim_start_matches('/').to_owned(),
            query: query.to_owned(),
        })
    }

    pub(crate) fn at(mut self, address: SocketAddr) -> Self {
        self.place = address.to_string();
        self
    }

    pub(crate) fn with_database(mut self, database: &str) -> Self {
        database.clone_into(&mut self.database);
        self
    }

    /// The server's address, looked up when it's a name.
    ///
    /// # Errors
    /// When the name has no address.
    pub(crate) fn resolve(&self, default_port: u16) -> std::io::Result<SocketAddr> {
        let has_port = self
            .place
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let place = if has_port {
            self.place.clone()
        } else {
            format!("{}:{default_port}", self.place)
        };
        place.to_socket_addrs()?.next().ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!("{place} has no address"),
            )
        })
    }
}

impl std::fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            scheme,
            credentials,
            place,
            database,
            query,
        } = self;
        let slash = if database.is_empty() { "" } else { "/" };
        write!(f, "{scheme}://{credentials}{place}{slash}{database}{query}")
    }
}

/// Cuts before the first `mark`, which stays with the second part.
fn cut(text: &str, mark: char) -> (&str, &str) {
    text.split_at(text.find(mark).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ServerUrl {
        ServerUrl::parse(text, "TEST_URL").expect("a good address")
    }

    #[test]
    fn an_address_is_kept_as_it_was() {
        for text in [
            "redis://127.0.0.1:6379",
            "redis://:p%40ss@cache:6379/2",
            "postgresql://me:a@b@db.example/shop?sslmode=require&application_name=a/b",
            "postgres://[::1]:5432/x",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn place_and_database_are_replaced_and_nothing_else() {
        let proxy = SocketAddr::from(([127, 0, 0, 1], 7000));
        let url = parse("postgresql://me:secret@db/shop?sslmode=disable");
        assert_eq!(
            url.at(proxy).with_database("unstall_a").to_string(),
            "postgresql://me:secret@127.0.0.1:7000/unstall_a?sslmode=disable"
        );
    }

    #[test]
    fn ports_are_the_urls_own_or_the_default() {
        let port = |text| parse(text).resolve(5432).map(|address| address.port()).ok();
        assert_eq!(port("postgresql://127.0.0.1/x"), Some(5432));
        assert_eq!(port("postgresql://127.0.0.1:99/x"), Some(99));
        assert_eq!(port("postgresql://[::1]/x"), Some(5432));
        assert_eq!(port("postgresql://[::1]:98/x"), Some(98));
    }

    #[test]
    fn a_bad_address_is_named_without_its_secret() {
        for text in [
            "",
            "localhost:6379",
            "redis://",
            "://host",
            "redis://user:secret@",
        ] {
            let error = ServerUrl::parse(text, "REDIS_URL")
                .expect_err(text)
                .to_string();
            assert!(
                error.contains("REDIS_URL") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
