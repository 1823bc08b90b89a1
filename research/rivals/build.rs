//! Compiles the C shim for Berkeley DB. The library's methods are function pointers in structures
//! that only its C header defines.

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
