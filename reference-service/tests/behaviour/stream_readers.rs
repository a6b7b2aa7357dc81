//! Step 6: readers that hold no thread. What they hold is counted: connections of Redis, threads
//! and tasks of the service; clients come and go, are slow or silent, and Redis does, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use unstall_testbed::{DelayProxy, Testbed};

use super::leaks::{Holdings, MESSAGE, create, end_run, open_stream, wait_until};
use super::own_redis::OwnRedis;
use super::runs::{messages, say};
use super::service::{Service, fresh_database, seeded_testbed, shared_testbed, start_worker};

/// Step 6 alone, and with all others.
const STATES: [&str; 2] = ["0,6", "0,1,2a,2b,2c,2d,2e,3,4,5,6"];
/// Streams of one reader.
const STREAMS_OF_READER: usize = 128;
/// What a run says first.
const QUEUED: &str = r#"{"message":"","citations":[],"tool_calls":[],"thinking":null}"#;
/// Slots that streams and sessions share before step 6.
const SLOTS: usize = 40;

/// Connections of this database whose line of CLIENT LIST has that in it.
fn connections(redis: &OwnRedis, with: &str) -> usize {
    let clients = redis.ask(&["CLIENT", "LIST"]).text();
    let here = format!(" db={} ", redis.number());
    let of_service = |client: &&str| client.contains(&here) && !client.contains("cmd=client|list");
    let lines = clients.lines().filter(of_service);
    lines.filter(|client| client.contains(with)).count()
}

/// Waits until that many connections are there at all.
async fn connections_are(redis: &OwnRedis, expected: usize) {
    let what = format!("{expected} connections");
    wait_until(&what, async || connections(redis, "") == expected).await;
}

/// Waits until that many connections wait inside XREAD.
async fn readers_are(redis: &OwnRedis, expected: usize) {
    let what = format!("{expected} connections wait for entries");
    let waiting = async || connections(redis, "cmd=xread") == expected;
    wait_until(&what, waiting).await;
}

fn say_in_run(redis: &OwnRedis, session: usize, text: &str) {
    let stream = format!("chat:stream:c-0-1:s{session}");
    redis.ask(&["XADD", &stream, "*", "type", "chunk", "content", text]);
}

/// Reads on until that was said.
async fn hear(stream: &mut reqwest::Response, text: &str) {
    let piece = stream.chunk().await.expect("it goes on").expect("a piece");
    let piece = std::str::from_utf8(&piece).expect("text");
    assert_eq!(messages(piece), [text]);
}

#[tokio::test]
async fn one_reader_reads_for_all_and_ends_with_the_last() {
    const STREAMS: usize = 20;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let holdings = Holdings::of(&service).await;
        let mut streams = Vec::new();
        for session in 0..STREAMS {
            streams.push(open_stream(&service, session).await);
        }
        readers_are(&redis, 1).await;
        for (session, stream) in streams.iter_mut().enumerate() {
            say_in_run(&redis, session, "a");
            hear(stream, "a").await;
        }
        // Some leave, some runs end, and who stays is still read for.
        let mut last = streams.pop().expect("many");
        for (session, stream) in streams.into_iter().enumerate() {
            if session % 2 == 0 {
                end_run(&redis, session);
                assert_eq!(stream.text().await.expect("it ends"), "");
            }
        }
        say_in_run(&redis, STREAMS - 1, "b");
        hear(&mut last, "b").await;
        readers_are(&redis, 1).await;
        drop(last);
        readers_are(&redis, 0).await;
        holdings.are_returned(steps).await;
        // The next one finds a reader again.
        let mut stream = open_stream(&service, STREAMS).await;
        say_in_run(&redis, STREAMS, "c");
        hear(&mut stream, "c").await;
    }
}

#[tokio::test]
async fn a_run_that_many_follow_is_read_once() {
    const FOLLOWERS: usize = 10;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(STATES[1], &database_url, &redis.url);
    let first = open_stream(&service, 0).await;
    say_in_run(&redis, 0, "a");
    let url = service.url("/api/v1/conversations/c-0-1/resume/s0?cursor=0-0");
    let mut followers = vec![first];
    for _ in 0..FOLLOWERS {
        let resumed = reqwest::Client::new().post(&url).send().await;
        followers.push(resumed.expect("an answer"));
    }
    readers_are(&redis, 1).await;
    say_in_run(&redis, 0, "b");
    end_run(&redis, 0);
    for (n, follower) in followers.into_iter().enumerate() {
        let heard = messages(&follower.text().await.expect("it ends"));
        let expected: &[&str] = if n == 0 { &["a", "b"] } else { &["", "a", "b"] };
        assert_eq!(heard, expected);
    }
}

/// Whoever comes while others are read for is told from the start all the same.
#[tokio::test]
async fn who_comes_while_a_run_speaks_misses_nothing() {
    const FOLLOWERS: usize = 30;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(STATES[1], &database_url, &redis.url);
    let first = open_stream(&service, 0).await;
    let quick = ["--chunks", "300", "--rate", "500"];
    let _worker = start_worker(&database_url, &redis.url, &quick);
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let url = service.url("/api/v1/conversations/c-0-1/resume/s0?cursor=0-0");
        followers.push(tokio::spawn(async move {
            let resumed = reqwest::Client::new().post(url).send().await;
            resumed.expect("an answer").text().await.expect("it ends")
        }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let whole = first.text().await.expect("it ends");
    assert_eq!(messages(&whole).len(), 300);
    for follower in followers {
        let heard = follower.await.expect("it is told");
        assert_eq!(heard.strip_prefix(QUEUED), Some(&*whole));
    }
}

/// Each stream takes a descriptor here and one in the service, which inherits the limit; a shell's
/// usual one is 1024.
fn allow_descriptors(needed: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("it may be asked");
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard).expect("the hard limit is high enough");
    }
}

#[tokio::test]
async fn a_thousand_idle_streams_hold_eight_connections_and_no_thread() {
    const STREAMS: usize = 1000;
    allow_descriptors(4096);
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    // The first is to be there still when a slow machine has opened the last.
    let patient = ["--stream-idle-max", "3600"];
    let service = Service::start_state_with(STATES[1], &database_url, &redis.url, &patient);
    let holdings = Holdings::of(&service).await;
    let mut streams = Vec::new();
    for session in 0..STREAMS {
        streams.push(open_stream(&service, session).await);
    }
    readers_are(&redis, STREAMS.div_ceil(STREAMS_OF_READER)).await;
    // Not one more is needed; one that looks Redis' name up for a while may be there.
    wait_until("threads are as at rest", async || {
        holdings.threads() <= holdings.at_rest.0
    })
    .await;
    // Sessions and streams are there for others.
    assert_eq!(create(service.url("/api/v1/conversations")).await, 200);
    for session in [0, STREAMS / 2, STREAMS - 1] {
        say_in_run(&redis, session, "still there");
        hear(&mut streams[session], "still there").await;
    }
    let left = streams.split_off(STREAMS / 2);
    drop(streams);
    (STREAMS / 2..STREAMS).for_each(|session| end_run(&redis, session));
    for stream in left {
        assert_eq!(stream.text().await.expect("it ends"), "");
    }
    readers_are(&redis, 0).await;
    holdings.are_returned(STATES[1]).await;
}

#[tokio::test]
async fn no_number_of_streams_keeps_a_session_waiting() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &redis.url);
        let mut streams = Vec::new();
        for session in 0..2 * SLOTS {
            streams.push(open_stream(&service, session).await);
        }
        assert_eq!(create(service.url("/api/v1/conversations")).await, 200);
        for (session, mut stream) in streams.into_iter().enumerate() {
            say_in_run(&redis, session, "a");
            hear(&mut stream, "a").await;
        }
    }
}

/// Asks for a run's stream and reads nothing of it.
fn resume_and_read_nothing(service: &Service) -> TcpStream {
    let mut client = TcpStream::connect(service.address).expect("connects");
    client
        .write_all(
            b"POST /api/v1/conversations/c-0-1/resume/s0?cursor=0-0 HTTP/1.1\r\nhost: x\r\n\
              connection: close\r\n\r\n",
        )
        .expect("sends");
    client
}

/// A run with more to say than sockets hold, which has not ended.
fn long_run(redis: &OwnRedis, entries: usize) -> String {
    let long = "x".repeat(64 * 1024);
    for _ in 0..entries {
        say_in_run(redis, 0, &long);
    }
    long
}

#[tokio::test]
async fn a_slow_client_misses_nothing_and_holds_nobody_up() {
    const ENTRIES: usize = 300;
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(STATES[1], &database_url, &redis.url);
    let holdings = Holdings::of(&service).await;
    let long = long_run(&redis, ENTRIES);
    let mut slow = resume_and_read_nothing(&service);
    // Whoever comes later has heard all of it before the slow one reads its first byte.
    let url = service.url("/api/v1/conversations/c-0-1/resume/s0?cursor=0-0");
    let mut quick = reqwest::Client::new()
        .post(url)
        .send()
        .await
        .expect("it is there");
    let object =
        format!(r#"{{"message":"{long}","citations":[],"tool_calls":[],"thinking":null}}"#);
    let mut heard = 0;
    while heard < ENTRIES * object.len() {
        let Some(piece) = quick.chunk().await.expect("it goes on") else {
            panic!("it ended after {heard} of {} bytes", ENTRIES * object.len());
        };
        heard += piece.len();
    }
    end_run(&redis, 0);
    assert_eq!(quick.text().await.expect("it ends"), "");
    let body = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        slow.read_to_string(&mut answer).expect("it ends");
        answer
    });
    let body = body.await.expect("read");
    assert_eq!(body.matches(&object).count(), ENTRIES);
    readers_are(&redis, 0).await;
    holdings.are_returned(STATES[1]).await;
}

#[tokio::test]
async fn a_client_that_accepts_nothing_is_let_go() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let mut options = vec!["--steps", STATES[1], "--stream-idle-max", "1"];
    options.extend(["--database-url", &database_url, "--redis-url", &redis.url]);
    let service = Service::start_with(&options);
    let at_rest = connections(&redis, "");
    let long = long_run(&redis, 300);
    let mut stuck = resume_and_read_nothing(&service);
    connections_are(&redis, at_rest + 1).await;
    // It is still connected, and holds nothing but its socket.
    connections_are(&redis, at_rest).await;
    let body = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        stuck.read_to_string(&mut rest).expect("it ends, plainly");
        rest
    });
    let whole = body.await.expect("read").matches(&long).count();
    assert!((1..300).contains(&whole), "{whole} objects");
}

#[tokio::test]
async fn a_lost_connection_is_replaced_and_nothing_is_missed() {
    let testbed = seeded_testbed();
    let redis = OwnRedis::whole(&testbed);
    for steps in STATES {
        let (_, database_url) = fresh_database(&testbed);
        redis.reset();
        let service = Service::start(steps, &database_url, &testbed.redis_url());
        let holdings = Holdings::of(&service).await;
        let mut stream = open_stream(&service, 0).await;
        for text in ["a", "b", "c"] {
            readers_are(&redis, 1).await;
            redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            // Said while nobody reads.
            say_in_run(&redis, 0, text);
            hear(&mut stream, text).await;
        }
        end_run(&redis, 0);
        assert_eq!(stream.text().await.expect("it ends"), "");
        holdings.are_returned(steps).await;
    }
}

/// A Redis that stays away for longer than its readers wait for it.
#[tokio::test]
async fn a_redis_that_stays_away_ends_streams() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let near = |testbed: &Testbed| {
        DelayProxy::start(testbed.redis_address(), Duration::ZERO).expect("a proxy")
    };
    let proxy = near(testbed);
    let url = redis.url_through(testbed, proxy.addr());
    let service = Service::start(STATES[1], &database_url, &url);
    let holdings = Holdings::of(&service).await;
    let mut streams = Vec::new();
    for session in 0..3 {
        streams.push(open_stream(&service, session).await);
    }
    drop(proxy);
    for stream in streams {
        assert_eq!(stream.text().await.expect("it ends, plainly"), "");
    }
    holdings.are_returned(STATES[1]).await;
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_its_own_clients_affair() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(STATES[1], &database_url, &redis.url);
    let mut good = open_stream(&service, 0).await;
    let entry = ["*", "type", "chunk", "content", "a"];
    redis.ask(&[&["XADD", "chat:stream:c-0-1:text"][..], &entry].concat());
    redis.ask(&["SET", "chat:stream:c-0-1:none", "x"]);
    for session in ["none", "text"] {
        let url = service.url(&format!("/api/v1/conversations/c-0-1/resume/{session}"));
        let resumed = reqwest::Client::new()
            .post(url)
            .send()
            .await
            .expect("it is there");
        if session == "none" {
            assert_eq!(resumed.text().await.expect("it ends, plainly"), "");
        } else {
            // Turned into another thing while it is followed.
            let mut resumed = resumed;
            hear(&mut resumed, "a").await;
            redis.ask(&["SET", "chat:stream:c-0-1:text", "x"]);
            assert_eq!(resumed.text().await.expect("it ends, plainly"), "");
        }
        say_in_run(&redis, 0, session);
        hear(&mut good, session).await;
    }
}

#[tokio::test]
async fn streams_end_with_their_runs_after_term_and_leave_nothing() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let mut service = Service::start(STATES[1], &database_url, &redis.url);
    let mut ends = open_stream(&service, 0).await;
    let mut silent = open_stream(&service, 1).await;
    service.terminate();
    wait_until("it accepts nobody", async || {
        TcpStream::connect(service.address).is_err()
    })
    .await;
    say_in_run(&redis, 0, "the last words");
    hear(&mut ends, "the last words").await;
    end_run(&redis, 0);
    assert_eq!(ends.text().await.expect("it ends"), "");
    // A run that never ends holds nothing up for ever: its client is cut off.
    assert!(!matches!(silent.chunk().await, Ok(Some(_))));
    let exit = tokio::task::spawn_blocking(move || service.wait()).await;
    assert!(exit.expect("waited").success());
    readers_are(&redis, 0).await;
}

#[tokio::test]
async fn whole_answers_need_no_thread_either() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    let (_, database_url) = fresh_database(testbed);
    let service = Service::start(STATES[1], &database_url, &redis.url);
    let holdings = Holdings::of(&service).await;
    let mut idle = Vec::new();
    for session in 0..2 * SLOTS {
        idle.push(open_stream(&service, session).await);
    }
    redis.ask(&["DEL", "agent:runs"]);
    let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
    let answer = say(&service, &format!("{MESSAGE}?stream=false"), "x").await;
    let answer = answer.text().await.expect("an answer");
    assert!(answer.contains(r#""message":"You asked: x""#), "{answer}");
    drop(idle);
    holdings.are_returned(STATES[1]).await;
}
