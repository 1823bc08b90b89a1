use crate::protocol::resp::{ParsedRequests, RequestLimits, RequestParser};
use crate::redis::names::find;

fn keys_of(line: &str) -> Vec<String> {
    let mut buffer = format!("{line}\r\n").into_bytes();
    let mut requests = ParsedRequests::default();
    let limits = RequestLimits {
        bytes: 1000,
        argument: 1000,
        arguments: 100,
        line: 1000,
    };
    RequestParser::default()
        .parse(&mut buffer, &mut requests, &limits, 1)
        .unwrap();
    let args = requests.get(0, &buffer);
    let command = find(args.at(0)).unwrap();
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let (keys, mut each) = (command.keys(args).map(text).collect(), Vec::new());
    command.each_key(args, |key| each.push(text(key)));
    assert_eq!(each, keys, "{line}");
    keys
}

#[test]
fn keys_are_found_among_the_arguments() {
    assert_eq!(keys_of("SET a 1 EX 5"), ["a"]);
    assert_eq!(keys_of("MSET a 1 b 2"), ["a", "b"]);
    assert_eq!(keys_of("DEL a b c"), ["a", "b", "c"]);
    assert_eq!(keys_of("RENAME a b"), ["a", "b"]);
    assert_eq!(keys_of("OBJECT ENCODING a"), ["a"]);
    assert_eq!(keys_of("OBJECT HELP"), [""; 0]);
    assert_eq!(keys_of("PING a"), [""; 0]);
    assert_eq!(keys_of("ZUNION 2 a b WITHSCORES"), ["a", "b"]);
    assert_eq!(keys_of("ZUNIONSTORE to 1 a WEIGHTS 2"), ["to", "a"]);
    assert_eq!(keys_of("ZUNION 9 a b"), [""; 0]);
    assert_eq!(keys_of("ZUNION -1 a b"), [""; 0]);
    assert_eq!(keys_of("LMPOP x a LEFT"), [""; 0]);
    assert_eq!(keys_of("SORT a BY w_* STORE x STORE b"), ["a", "b"]);
    assert_eq!(keys_of("SORT a BY STORE GET STORE"), ["a"]);
}

/// Returns the command table in the format of docs/commands.md.
fn page() -> String {
    let mut groups: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for command in super::all() {
        groups
            .entry(command.group)
            .or_default()
            .push(command.name.to_uppercase());
    }
    let mut page = String::from("| group | commands |\n|---|---|\n");
    for (group, mut names) in groups {
        names.sort();
        page += &format!("| {group} | `{}` |\n", names.join(" "));
    }
    page
}

#[test]
fn the_page_of_commands_lists_the_table() {
    let text = include_str!("../../../../../docs/commands.md");
    let (_, rest) = text.split_once("-->\n").expect("the comment before the table");
    let (found, _) = rest
        .split_once("<!-- end of commands -->")
        .expect("the comment after the table");
    assert!(
        found == page(),
        "replace the table of docs/commands.md by this one:\n{}",
        page()
    );
}
