//! The library `bit`: operations on the bits of 32-bit numbers.

use mlua::{Lua, Result, Table, Variadic};

/// Converts a number to 32 bits: modulo 2³², rounded to even.
fn bits(number: f64) -> u32 {
    let whole = number.round_ties_even();
    if !whole.is_finite() {
        return 0;
    }
    whole.rem_euclid(4_294_967_296.0) as u32
}

fn signed(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let one = |name: &str, run: fn(u32) -> u32| {
        let run = lua.create_function(move |_, number: f64| Ok(signed(run(bits(number)))))?;
        library.set(name, run)
    };
    one("tobit", |number| number)?;
    one("bnot", |number| !number)?;
    one("bswap", u32::swap_bytes)?;
    let all = |name: &str, run: fn(u32, u32) -> u32| {
        let run = move |_: &Lua, (first, rest): (f64, Variadic<f64>)| {
            let joined = rest
                .iter()
                .fold(bits(first), |joined, &number| run(joined, bits(number)));
            Ok(signed(joined))
        };
        library.set(name, lua.create_function(run)?)
    };
    all("band", |one, other| one & other)?;
    all("bor", |one, other| one | other)?;
    all("bxor", |one, other| one ^ other)?;
    let shift = |name: &str, run: fn(u32, u32) -> u32| {
        let run = move |_: &Lua, (number, by): (f64, f64)| Ok(signed(run(bits(number), bits(by) & 31)));
        library.set(name, lua.create_function(run)?)
    };
    shift("lshift", |number, by| number << by)?;
    shift("rshift", |number, by| number >> by)?;
    shift("arshift", |number, by| {
        (number.cast_signed() >> by).cast_unsigned()
    })?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    let to_hex = |_: &Lua, (number, digits): (f64, Option<f64>)| {
        let digits = digits.unwrap_or(8.0).clamp(-8.0, 8.0) as i32;
        let length = digits.unsigned_abs() as usize;
        let text = match digits < 0 {
            true => format!("{:08X}", bits(number)),
            false => format!("{:08x}", bits(number)),
        };
        Ok(text[8 - length..].to_owned())
    };
    library.set("tohex", lua.create_function(to_hex)?)?;
    Ok(library)
}
