//! A database of Redis that one test has for itself, and a client of a few lines to look into it:
//! the service's own clients are what is tested.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use unstall_testbed::Testbed;

use super::service::succeed;

/// Databases of the shared Redis that no test has at the moment: it has sixteen unless told
/// otherwise, and the first is everybody's.
static FREE: LazyLock<Mutex<Vec<u32>>> = LazyLock::new(|| Mutex::new((1..16).collect()));

fn lock_free() -> MutexGuard<'static, Vec<u32>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A Redis, or a numbered database of the shared one: runs of one test are not for the workers
/// of another.
pub(crate) struct OwnRedis {
    /// With the database's number.
    pub(crate) url: String,
    address: SocketAddr,
    number: u32,
}

impl OwnRedis {
    /// A database of its own, as seeded.
    pub(crate) fn new(testbed: &Testbed) -> Self {
        let number = lock_free().pop();
        let number = number.expect("at most fifteen tests run at once");
        Self::numbered(testbed, number)
    }

    /// The first database of a testbed that isn't shared, as seeded.
    pub(crate) fn whole(testbed: &Testbed) -> Self {
        Self::numbered(testbed, 0)
    }

    /// The first database of a testbed that isn't shared, as it is.
    pub(crate) fn of(testbed: &Testbed) -> Self {
        Self::as_it_is(testbed, 0)
    }

    fn numbered(testbed: &Testbed, number: u32) -> Self {
        let redis = Self::as_it_is(testbed, number);
        redis.reset();
        redis
    }

    fn as_it_is(testbed: &Testbed, number: u32) -> Self {
        Self {
            url: format!("{}/{number}", testbed.redis_url()),
            address: testbed.redis_address(),
            number,
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its URL through a proxy.
    pub(crate) fn url_through(&self, testbed: &Testbed, proxy: SocketAddr) -> String {
        format!("{}/{}", testbed.redis_url_through(proxy), self.number)
    }

    /// As seeded.
    pub(crate) fn reset(&self) {
        self.ask(&["FLUSHDB"]);
        succeed(&["seed", "--redis-url", &self.url]);
    }

    /// Runs a command on a connection of its own.
    pub(crate) fn ask(&self, words: &[&str]) -> Reply {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        let mut replies = BufReader::new(stream.try_clone().expect("a socket"));
        let select = ["SELECT", &self.number.to_string()];
        for command in [&select[..], words] {
            stream.write_all(&encoded(command)).expect("sends");
        }
        Reply::read(&mut replies);
        Reply::read(&mut replies)
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        // Number 0 is a whole server that ends with its own testbed.
        if self.number > 0 {
            lock_free().push(self.number);
        }
    }
}

/// As the Redis protocol (RESP2) has it: an array of bulk strings.
fn encoded(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// What Redis says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Nothing,
    Text(String),
    Number(i64),
    List(Vec<Self>),
}

impl Reply {
    fn read(from: &mut impl BufRead) -> Self {
        let mut line = String::new();
        from.read_line(&mut line).expect("an answer");
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "+" => Self::Text(rest.to_owned()),
            ":" => Self::Number(number()),
            "$" | "*" if number() < 0 => Self::Nothing,
            "$" => {
                let length = usize::try_from(number()).expect("a length");
                let mut text = vec![0; length + 2];
                from.read_exact(&mut text).expect("the whole text");
                text.truncate(length);
                Self::Text(String::from_utf8(text).expect("text"))
            }
            "*" => Self::List((0..number()).map(|_| Self::read(from)).collect()),
            _ => panic!("Redis refused: {line}"),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    pub(crate) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    pub(crate) fn list(self) -> Vec<Self> {
        match self {
            Self::List(list) => list,
            other => panic!("no list: {other:?}"),
        }
    }

    /// A list of texts, sorted.
    pub(crate) fn texts(self) -> Vec<String> {
        let mut texts: Vec<String> = self.list().into_iter().map(Self::text).collect();
        texts.sort();
        texts
    }
}
