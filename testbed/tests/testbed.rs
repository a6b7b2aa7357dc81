//! Private servers come up, are set back between blocks, and leave nothing behind.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use unstall_testbed::{Options, Testbed, TestbedError};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn redis(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn sql(url: &str, statement: &str) -> Outcome<String> {
    let output = Command::new("psql")
        .args(["-XAtqc", statement, "-d", url])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[test]
fn state_is_set_back_and_two_testbeds_do_not_meet() -> Outcome {
    let began = Instant::now();
    let first = Testbed::start(&Options::default())?;
    let up_ms = began.elapsed().as_millis();
    let second = Testbed::start(&Options::default())?;
    assert!(first.redis_is_private() && first.postgres_is_private());
    assert_ne!(first.redis_address(), second.redis_address());
    assert_ne!(first.postgres_address(), second.postgres_address());

    assert_eq!(redis(first.redis_address(), "SET key first")?, "+OK");
    assert_eq!(redis(second.redis_address(), "EXISTS key")?, ":0");
    first.flush_redis()?;
    assert_eq!(redis(first.redis_address(), "EXISTS key")?, ":0");

    first.create_template("service_template", |url| {
        sql(
            url,
            "CREATE TABLE users AS SELECT generate_series(1, 1000) AS id",
        )?;
        Ok(())
    })?;
    let url = first.reset_database("service_template", "service")?;
    assert_eq!(url, first.database_url("service"));
    sql(&url, "DELETE FROM users")?;
    // Somebody is connected still: a pool of the arm before. It must not hinder the reset.
    let mut sleeper = Command::new("psql")
        .args(["-Xqc", "SELECT pg_sleep(60)", "-d", &url])
        .stderr(Stdio::null())
        .spawn()?;
    while sql(
        &url,
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'",
    )? != "1"
    {
        thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    first.reset_database("service_template", "service")?;
    let reset_ms = began.elapsed().as_millis();
    assert!(!sleeper.wait()?.success());
    assert_eq!(sql(&url, "SELECT count(*) FROM users")?, "1000");
    assert!(sql(&second.database_url("service"), "SELECT 1").is_err());
    eprintln!("testbed up in {up_ms} ms, database reset in {reset_ms} ms");
    Ok(())
}

#[test]
fn a_restarted_redis_is_empty_and_where_it_was() -> Outcome {
    let mut testbed = Testbed::start(&Options::default())?;
    let address = testbed.redis_address();
    for _ in 0..3 {
        assert_eq!(redis(address, "SET key value")?, "+OK");
        testbed.restart_redis()?;
        assert_eq!(testbed.redis_address(), address);
        assert_eq!(redis(address, "EXISTS key")?, ":0");
    }
    let mut theirs = Testbed::start(&Options {
        database_url: Some(testbed.database_url("postgres")),
        redis_url: Some(testbed.redis_url()),
    })?;
    for refused in [
        theirs.restart_redis(),
        theirs.kill_redis(),
        theirs.kill_postgres(),
        theirs.revive_postgres(),
    ] {
        assert!(matches!(refused, Err(TestbedError::NotPrivate { .. })));
    }
    Ok(())
}

#[test]
fn a_killed_postgres_comes_back_with_what_was_committed() -> Outcome {
    let mut testbed = Testbed::start(&Options::default())?;
    let address = testbed.postgres_address();
    testbed.create_template("kept", |url| {
        sql(url, "CREATE TABLE rows (number integer)").map(drop)
    })?;
    let url = testbed.reset_database("kept", "own")?;
    for number in 1..=3 {
        sql(&url, "INSERT INTO rows VALUES (1)")?;
        // A client in the middle of a transaction keeps nobody from ending.
        let mut client = Command::new("psql")
            .args(["-Xqd", &url, "-c", "BEGIN"])
            .args(["-c", "INSERT INTO rows VALUES (1)"])
            .args(["-c", "SELECT pg_sleep(600)"])
            .stderr(Stdio::null())
            .spawn()?;
        while sql(
            &url,
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'",
        )? != "1"
        {
            thread::sleep(Duration::from_millis(10));
        }
        testbed.kill_postgres()?;
        assert!(!client.wait()?.success());
        assert!(TcpStream::connect(address).is_err());
        testbed.revive_postgres()?;
        assert_eq!(testbed.postgres_address(), address);
        assert_eq!(sql(&url, "SELECT count(*) FROM rows")?, number.to_string());
    }
    Ok(())
}

#[test]
fn a_template_that_could_not_be_prepared_says_why() -> Outcome {
    let testbed = Testbed::start(&Options::default())?;
    let error = testbed
        .create_template("broken", |url| sql(url, "SELECT nonsense").map(drop))
        .expect_err("nonsense is no column");
    assert!(error.to_string().contains("nonsense"), "{error}");
    for name in ["", "Upper", "semi;colon", "1st", &"x".repeat(64)] {
        let error = testbed.reset_database("broken", name).expect_err(name);
        assert!(
            matches!(error, TestbedError::DatabaseName { .. }),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn servers_of_somebody_else_lose_nothing() -> Outcome {
    let theirs = Testbed::start(&Options::default())?;
    redis(theirs.redis_address(), "SET key theirs")?;
    sql(&theirs.database_url("postgres"), "CREATE DATABASE shop")?;
    let ours = Testbed::start(&Options {
        database_url: Some(theirs.database_url("postgres")),
        redis_url: Some(theirs.redis_url()),
    })?;

    assert!(!ours.redis_is_private() && !ours.postgres_is_private());
    assert_eq!(ours.redis_address(), theirs.redis_address());
    assert!(matches!(
        ours.flush_redis(),
        Err(TestbedError::NotPrivate { .. })
    ));
    assert!(matches!(
        ours.drop_database("shop"),
        Err(TestbedError::NotPrivate { .. })
    ));
    assert!(matches!(
        ours.create_template("shop", |_| Ok(())),
        Err(TestbedError::NotPrivate { .. })
    ));
    assert!(matches!(
        ours.reset_database("unstall_template", "shop"),
        Err(TestbedError::NotPrivate { .. })
    ));
    assert_eq!(redis(theirs.redis_address(), "EXISTS key")?, ":1");
    sql(&theirs.database_url("shop"), "SELECT 1")?;

    ours.create_template("unstall_template", |_| Ok(()))?;
    ours.reset_database("unstall_template", "unstall_service")?;
    drop(ours);
    assert_eq!(redis(theirs.redis_address(), "EXISTS key")?, ":1");
    Ok(())
}
