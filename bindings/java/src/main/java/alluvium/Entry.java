package alluvium;

/**
 * A key and its value.
 *
 * @param key the key
 * @param value the value, which is empty if the range asks for keys only
 */
public record Entry(byte[] key, byte[] value) {}
