//! `alluvium.h` is what the sources generate.

use crate::compiler::folder;
use std::path::PathBuf;

fn generated() -> String {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let inline = std::fs::read_to_string(folder().join("src/inline.h")).unwrap();
    let sources =
        "error value options callbacks store keyspace batch snapshot iterator transaction".split_whitespace();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(folder().join(format!("src/{source}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    let text = String::from_utf8(text).unwrap();
    // Rust's links and its headings about safety mean nothing in C.
    let text = text
        .replace("[`", "`")
        .replace("`]", "`")
        .replace("(crate::", "(");
    let mut lines: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in text.lines() {
        is_safety = line == "// # Safety" || (is_safety && line.starts_with("//"));
        if is_safety {
            while lines.last() == Some(&"//") {
                lines.pop();
            }
        } else {
            lines.push(line);
        }
    }
    let text = lines.join("\n");
    // The functions that are written in C stand before the end of the include guard.
    let (body, _) = text.rsplit_once("#ifdef __cplusplus\n}").unwrap();
    let end = "#ifdef __cplusplus\n}  // extern \"C\"\n#endif  // __cplusplus\n\n#endif  /* ALLUVIUM_H */\n";
    format!("{body}{inline}\n{end}")
}

fn header() -> PathBuf {
    folder().join("include/alluvium.h")
}

#[test]
fn the_header_is_generated_from_the_sources() {
    let generated = generated();
    if std::env::var_os("ALLUVIUM_WRITE_HEADER").is_some() {
        std::fs::write(header(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(header()).unwrap_or_default();
    assert!(
        committed == generated,
        "alluvium.h differs from the sources: write it with ALLUVIUM_WRITE_HEADER=1 cargo test -p alluvium-c header"
    );
}

#[test]
fn the_interface_has_at_most_80_functions() {
    let text = generated();
    let declared = text.lines().filter(|line| {
        let is_code =
            !line.starts_with(['/', '#', ' ']) && !line.contains("static") && !line.contains("typedef");
        is_code && line.contains("alluvium_") && line.contains('(')
    });
    let count = declared.count();
    assert!((60..=80).contains(&count), "{count} functions");
}
