package alluvium;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ContractTest {
  @Test
  void theContractSuiteHolds() throws IOException {
    String result = Contract.runAll(Path.of("../contract"));
    System.out.println(result);
    assertTrue(result.endsWith(" 0 failed"), result);
    assertTrue(Integer.parseInt(result.split(" ")[1]) >= 300, result);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "get k a = 1",
        "put k a 1\nget k a = absent",
        "put k a 1\nget k a ! closed",
        "open d memory \"--colour\" ! closed",
        "open d memory \"--colour\" ! invalid_argument elephant",
        "put k a 1\niter i k\nrest i = a 1 b 2",
        "putt k a 1",
        "put missing a 1"
      })
  void aCaseThatDoesNotHoldIsFound(String wrong) {
    assertThrows(IllegalStateException.class, () -> Contract.runCase(wrong, "tiered"));
  }

  @Test
  void noOrderOfCallsIsACrash() {
    boolean isAll = "all".equals(System.getenv("ALLUVIUM_TESTS"));
    Map<Kind, Integer> kinds = Orders.run(20261130, isAll ? 1_000_000 : 50_000);
    System.out.println("answers: " + kinds);
    assertTrue(
        kinds.keySet().containsAll(
            Set.of(Kind.CLOSED, Kind.ENDED, Kind.IN_USE, Kind.INVALID_ARGUMENT, Kind.CONFLICT)),
        kinds.toString());
  }

  @Test
  void aLineIsSplitIntoWords() {
    List<Contract.Word> words = Contract.split("put k \"a\\x00\"*2 # a comment");
    assertEquals(3, words.size());
    assertEquals("a\0a\0", words.get(2).text());
  }
}
