package alluvium;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Runs the cases of bindings/contract, whose README describes their language: Contract FOLDER. */
final class Contract {
  private static final List<String> STRUCTURES =
      List.of("tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed");

  private static final Map<String, Dependence> DEPENDENCES = Map.of(
      "", Dependence.TRACKED, "untracked", Dependence.UNTRACKED, "shared", Dependence.SHARED,
      "update", Dependence.FOR_UPDATE);

  private static final Set<String> CREATING = Set.of("open", "keyspace", "existing", "batch", "ingest",
      "snapshot", "snapshot-open", "begin", "iter", "snapshot-iter", "tx-iter");

  /** A word of a step: plain ones are bare. */
  record Word(byte[] data, boolean isBare) {
    String text() { return new String(data, StandardCharsets.UTF_8); }
    boolean is(String bare) { return isBare && text().equals(bare); }
  }

  private final Path directory;
  private final Map<String, Object> variables = new HashMap<>();
  private List<Word> words;

  private Contract(Path directory) { this.directory = directory; }

  /** Splits a line into words: plain ones, or quoted ones with escapes and a count: "ab\x00"*3. */
  static List<Word> split(String line) {
    List<Word> words = new ArrayList<>();
    int at = 0;
    while (true) {
      while (at < line.length() && line.charAt(at) == ' ') at++;
      if (at == line.length() || line.charAt(at) == '#') return words;
      if (line.charAt(at) != '"') {
        String word = line.substring(at).split(" ", 2)[0];
        words.add(new Word(word.getBytes(StandardCharsets.UTF_8), true));
        at += word.length();
        continue;
      }
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      for (at++; line.charAt(at) != '"'; at++) {
        char letter = line.charAt(at);
        if (letter != '\\') {
          bytes.writeBytes(String.valueOf(letter).getBytes(StandardCharsets.UTF_8));
        } else if (line.charAt(++at) == 'x') {
          bytes.write(Integer.parseInt(line.substring(at + 1, at + 3), 16));
          at += 2;
        } else {
          bytes.write("\n\t\"\\".charAt("nt\"\\".indexOf(line.charAt(at))));
        }
      }
      byte[] once = bytes.toByteArray();
      if (++at < line.length() && line.charAt(at) == '*') {
        String count = line.substring(at + 1).split(" ", 2)[0];
        for (int n = Integer.parseInt(count); n > 1; n--) bytes.writeBytes(once);
        at += 1 + count.length();
      }
      words.add(new Word(bytes.toByteArray(), false));
    }
  }

  private byte[] optional(int at) { return words.get(at).is("none") ? null : data(at); }
  private byte[] data(int at) { return words.get(at).data(); }
  private String text(int at) { return at < words.size() ? words.get(at).text() : ""; }
  private String optionalText(int at) { return at < words.size() ? text(at) : null; }

  private long number(int at) {
    if (at >= words.size()) return 0;
    return text(at).equals("soon") ? System.currentTimeMillis() + 40 : Long.parseUnsignedLong(text(at));
  }

  private <T> T variable(Class<T> type, int at) {
    Object found = variables.get(text(at));
    if (!type.isInstance(found)) throw new IllegalStateException("there is no variable " + text(at));
    return type.cast(found);
  }

  private Store store(int at) { return variable(Store.class, at); }
  private Keyspace keyspace(int at) { return variable(Keyspace.class, at); }
  private Transaction transaction(int at) { return variable(Transaction.class, at); }
  private Batch batch(int at) { return variable(Batch.class, at); }
  private Path path(int at) { return directory.resolve(text(at).substring(1)); }

  private void free(String name) {
    if (variables.get(name) instanceof Handle handle) handle.free();
  }

  private byte[][] set(Object value) { return done(() -> variables.put(text(1), value)); }

  private Range range(int at) {
    Range range = Range.all();
    for (; at < words.size(); at++) {
      range = switch (text(at)) {
        case "from" -> range.from(data(++at));
        case "after" -> range.after(data(++at));
        case "to" -> range.to(data(++at));
        case "through" -> range.through(data(++at));
        case "prefix" -> Range.prefix(data(++at));
        case "keys" -> range.keysOnly();
        case "unordered" -> range.unordered();
        default -> throw new IllegalStateException(text(at) + " is no word of a range");
      };
    }
    return range;
  }

  private byte[][] pages(Cursor cursor, boolean isBackward, int size) {
    List<byte[]> answer = new ArrayList<>();
    ByteBuffer page = ByteBuffer.allocateDirect(size == 0 ? 200_000 : size);
    while (true) {
      page.clear();
      long count = isBackward ? cursor.pageBack(page) : cursor.page(page);
      if (count < 0) answer.addAll(List.of("short".getBytes(), Long.toString(-count).getBytes()));
      Page.forEach(page, (bytes, key, keyLength, value, valueLength) -> {
        byte[][] record = {new byte[keyLength], new byte[valueLength]};
        bytes.get(key, record[0]).get(value, record[1]);
        answer.addAll(List.of(record));
      });
      if (count <= 0 || size > 0) return answer.toArray(byte[][]::new);
    }
  }

  private static byte[][] one(byte[] value) { return new byte[][] {value}; }
  private static byte[][] said(Object value) { return one(value.toString().getBytes(StandardCharsets.UTF_8)); }

  private static byte[][] done(Runnable step) {
    step.run();
    return null;
  }

  private byte[][] step() {
    String verb = text(0);
    if (CREATING.contains(verb)) free(text(1));
    return switch (verb) {
      case "open" -> set(words.get(2).is("memory") ? Store.inMemory(text(3)) : Store.open(path(2), text(3)));
      case "close" -> done(store(1)::shutDown);
      case "force-close" -> done(store(1)::forceClose);
      case "free" -> done(() -> free(text(1)));
      case "sync" -> done(store(1)::sync);
      case "checkpoint" -> done(store(1)::checkpoint);
      case "compact" -> done(store(1)::compact);
      case "check" -> said(store(1).check());
      case "stats" -> said(store(1).stats());
      case "keyspaces" -> said(store(1).keyspaces());
      case "backup" -> done(() -> store(1).backup(path(2)));
      case "restore" -> done(() -> Store.restore(path(1), path(2)));
      case "repair" -> said(Store.repair(path(1)));
      case "keyspace" -> set(store(2).keyspace(text(3), optionalText(4)));
      case "existing" -> set(store(2).existingKeyspace(text(3)));
      case "drop" -> done(() -> store(1).dropKeyspace(text(2)));
      case "rename" -> done(() -> store(1).renameKeyspace(text(2), text(3)));
      case "write" -> done(() -> store(1).write(batch(2)));
      case "snapshot" -> set(words.size() > 3 ? store(2).createSnapshot(text(3)) : store(2).snapshot());
      case "snapshot-open" -> set(store(2).openSnapshot(text(3)));
      case "snapshot-remove" -> done(() -> store(1).removeSnapshot(text(2)));
      case "begin" -> set(store(2).begin(text(3)));
      case "sleep" -> done(() -> LockSupport.parkNanos(number(1) * 1_000_000));
      default -> verb.startsWith("batch") ? batchStep(verb) : recordStep(verb);
    };
  }

  private byte[][] recordStep(String verb) {
    return switch (verb) {
      case "put" -> done(() -> keyspace(1).put(data(2), data(3), number(4)));
      case "get" -> one(keyspace(1).get(data(2)));
      case "take" -> one(keyspace(1).take(data(2)));
      case "contains" -> said(keyspace(1).contains(data(2)));
      case "cas" -> said(keyspace(1).compareAndSet(data(2), optional(3), optional(4)));
      case "delete" -> done(() -> keyspace(1).delete(data(2), number(3)));
      case "delete-range" -> done(() -> keyspace(1).deleteRange(data(2), optional(3)));
      case "merge" -> done(() -> keyspace(1).merge(data(2), data(3)));
      case "multi-get" -> keyspace(1).multiGet(words.stream().skip(2).map(Word::data).toArray(byte[][]::new));
      case "ingest" -> set(keyspace(2).ingest());
      case "ingest-put" -> done(() -> variable(Ingest.class, 1).put(data(2), data(3)));
      case "ingest-finish" -> said(variable(Ingest.class, 1).finish());
      case "iter" -> set(keyspace(2).iterate(range(3)));
      case "snapshot-get" -> one(variable(Snapshot.class, 1).get(keyspace(2), data(3)));
      case "snapshot-iter" -> set(variable(Snapshot.class, 2).iterate(keyspace(3), range(4)));
      case "rest", "page" -> pages(variable(Cursor.class, 1), false, (int) number(2));
      case "rest-back", "page-back" -> pages(variable(Cursor.class, 1), true, (int) number(2));
      case "seek" -> done(() -> variable(Cursor.class, 1).seek(data(2)));
      default -> transactionStep(verb);
    };
  }

  private byte[][] batchStep(String verb) {
    return switch (verb) {
      case "batch" -> set(new Batch(optionalText(2)));
      case "batch-put" -> done(() -> batch(1).put(keyspace(2), data(3), data(4), number(5)));
      case "batch-delete" -> done(() -> batch(1).delete(keyspace(2), data(3), number(4)));
      case "batch-delete-range" -> done(() -> batch(1).deleteRange(keyspace(2), data(3), optional(4)));
      case "batch-merge" -> done(() -> batch(1).merge(keyspace(2), data(3), data(4)));
      case "batch-count" -> said(batch(1).count());
      case "batch-clear" -> done(batch(1)::clear);
      default -> throw new IllegalStateException(verb + " is no verb");
    };
  }

  private byte[][] transactionStep(String verb) {
    return switch (verb) {
      case "tx-iter" -> set(transaction(2).iterate(keyspace(3), range(4)));
      case "tx-get" -> one(transaction(1).get(keyspace(2), data(3), DEPENDENCES.get(text(4))));
      case "tx-put" -> done(() -> transaction(1).put(keyspace(2), data(3), data(4), number(5)));
      case "tx-delete" -> done(() -> transaction(1).delete(keyspace(2), data(3), number(4)));
      case "tx-delete-range" -> done(() -> transaction(1).deleteRange(keyspace(2), data(3), optional(4)));
      case "tx-merge" -> done(() -> transaction(1).merge(keyspace(2), data(3), data(4)));
      case "tx-depend" -> done(() -> transaction(1).dependOnRange(keyspace(2), range(3)));
      case "savepoint" -> set(transaction(2).savepoint());
      case "rollback-to" -> done(() -> transaction(1).rollbackTo(variable(Long.class, 2)));
      case "release" -> done(() -> transaction(1).release(variable(Long.class, 2)));
      case "commit" -> done(() -> transaction(1).commit(optionalText(2)));
      case "rollback" -> done(transaction(1)::rollback);
      default -> throw new IllegalStateException(verb + " is no verb");
    };
  }

  /** Runs a line, and compares what comes of it: `= words`, `has part`, `! kind [part]`, or nothing. */
  private void line(String line) {
    List<Word> all = split(line);
    if (all.isEmpty()) return;
    int end = 0;
    while (end < all.size() && !Stream.of("=", "!", "has").anyMatch(all.get(end)::is)) end++;
    words = all.subList(0, end);
    String mark = end < all.size() ? all.get(end).text() : "";
    List<Word> expected = all.subList(Math.min(end + 1, all.size()), all.size());
    byte[][] answer = null;
    AlluviumException failure = null;
    try { answer = step(); } catch (AlluviumException refusal) { failure = refusal; }
    boolean agrees = switch (mark) {
      case "!" -> failure != null && expected.get(0).is(failure.kind().label())
          && (expected.size() < 2 || failure.getMessage().contains(expected.get(1).text()));
      case "has" -> failure == null && new String(answer[0]).contains(expected.get(0).text());
      case "=" -> failure == null && answer.length == expected.size();
      default -> failure == null;
    };
    for (int i = 0; agrees && mark.equals("=") && i < answer.length; i++) {
      byte[] value = expected.get(i).is("absent") ? null : expected.get(i).data();
      agrees = Arrays.equals(answer[i], value);
    }
    if (!agrees) throw new IllegalStateException(line + "  came to " + Arrays.deepToString(answer) + ", " + failure);
  }

  /** Runs a case. Throws if it does not hold. */
  static void runCase(String steps, String structure) throws IOException {
    Contract contract = new Contract(Files.createTempDirectory("contract"));
    try {
      contract.line("open s memory \"--memory 16M --workers 1\"");
      contract.line("keyspace k s k \"--structure " + structure + "\"");
      for (String line : steps.split("\n")) contract.line(line);
    } finally {
      contract.variables.keySet().forEach(contract::free);
      try (Stream<Path> files = Files.walk(contract.directory)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
      }
    }
  }

  /** Runs all cases of a folder. Returns how many there are, how often they ran and what failed. */
  static String runAll(Path folder) throws IOException {
    int cases = 0, runs = 0, failed = 0;
    List<Path> files;
    try (Stream<Path> found = Files.list(folder)) {
      files = found.filter(file -> file.toString().endsWith(".toml")).sorted().toList();
    }
    for (Path file : files) {
      String[] parts = Files.readString(file).split("\\[\\[case]]\n");
      for (String part : Arrays.asList(parts).subList(1, parts.length)) {
        String[] halves = part.split("steps = '''\n", 2);
        int count = halves[0].contains("on = \"all\"") ? 5 : halves[0].contains("on = \"ordered\"") ? 4 : 1;
        cases++;
        for (String structure : STRUCTURES.subList(0, count)) {
          runs++;
          try {
            runCase(halves[1].substring(0, halves[1].indexOf("\n'''")), structure);
          } catch (RuntimeException refusal) {
            failed++;
            System.out.println("FAILED: " + halves[0].strip() + " (" + structure + "): " + refusal);
          }
        }
      }
    }
    return "contract: " + cases + " cases, " + runs + " runs, " + failed + " failed";
  }

  public static void main(String[] arguments) throws IOException {
    String result = runAll(Path.of(arguments[0]));
    System.out.println(result);
    if (!result.endsWith(" 0 failed")) System.exit(1);
  }
}
