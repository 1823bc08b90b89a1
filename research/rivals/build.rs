//! Compiles what calls Berkeley DB, whose methods are members of structures that only its header
//! lays out.

fn main() {
    println!("cargo:rerun-if-changed=src/berkeley/calls.c");
    #[cfg(feature = "berkeley-db")]
    {
        cc::Build::new()
            .file("src/berkeley/calls.c")
            .warnings(true)
            .warnings_into_errors(true)
            .compile("alluvium_berkeley");
        println!("cargo:rustc-link-lib=db-5.3");
    }
}
