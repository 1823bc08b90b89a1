//! The commands of the README, as a newcomer types them.

use super::Place;
use super::serve::Served;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

const README: &str = include_str!("../../../../README.md");

/// Returns the README's fenced block in a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).expect("the block");
    rest.split_once("```").expect("its end").0
}

/// Sends a command as typed and returns the reply as redis-cli prints it.
fn reply(stream: &mut BufReader<TcpStream>, command: &str) -> String {
    write!(stream.get_mut(), "{command}\r\n").expect("the server reads");
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a reply");
        line.trim_end().to_owned()
    };
    let first = line();
    match first.split_at(1) {
        ("+", text) => text.to_owned(),
        ("$", _) => format!("\"{}\"", line()),
        _ => panic!("{command}: {first}"),
    }
}

#[test]
fn the_server_and_the_session_of_the_readme_work() {
    let (_, arguments) = block("sh").trim().split_once(" -- ").expect("a command of cargo");
    assert_eq!(
        arguments, "serve",
        "`Served` starts this command with other ports"
    );
    let place = Place::new();
    let served = Served::new(&place, &[]);
    let stream = TcpStream::connect(&served.redis).expect("the port of Redis");
    let mut stream = BufReader::new(stream);
    let mut lines = block("console").lines();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ redis-cli ").expect("a command of redis-cli");
        assert_eq!(Some(&*reply(&mut stream, command)), lines.next(), "{command}");
        commands += 1;
    }
    assert!(commands >= 2, "{commands}");
}
