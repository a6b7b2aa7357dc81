//! TERM lets requests in flight finish, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::own_redis::OwnRedis;
use super::service::{Service, fresh_database, shared_testbed, start_worker};

#[test]
fn requests_in_flight_are_answered_after_term() {
    let testbed = shared_testbed();
    let redis = OwnRedis::new(testbed);
    for steps in ["start", "0", "0,1,2a,3", "0,1,2a,3,6"] {
        let (_, database_url) = fresh_database(testbed);
        redis.reset();
        let _worker = start_worker(&database_url, &redis.url, &["--rate", "1000"]);
        let mut service = Service::start(steps, &database_url, &redis.url);
        let body = "content=hello";
        let mut connection = TcpStream::connect(service.address).expect("connects");
        // A request whose body isn't all there is in flight for as long as we like. The interim
        // answer tells that the handler has begun to read it.
        write!(
            connection,
            "POST /api/v1/conversations/c-0-1/message HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .expect("sends");
        let mut interim = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        connection
            .read_exact(&mut interim)
            .expect("the interim answer");
        assert!(interim.starts_with(b"HTTP/1.1 100 "));

        service.terminate();
        // From when it accepts nobody, it is draining.
        while TcpStream::connect(service.address).is_ok() {
            std::thread::yield_now();
        }
        connection
            .write_all(body.as_bytes())
            .expect("is still read");
        let mut answer = String::new();
        connection
            .read_to_string(&mut answer)
            .expect("is still answered, then closed");
        assert!(
            answer.starts_with("HTTP/1.1 200 "),
            "steps {steps}: {answer}"
        );
        assert!(
            answer.contains(r#""message":"hello""#),
            "steps {steps}: {answer}"
        );
        assert!(service.wait().success(), "steps {steps}");
    }
}
