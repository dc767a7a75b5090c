package io.penstock.skipping.join

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.{And, EqualTo, Expression, PredicateHelper, SubqueryExpression}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide, ColumnPruning, JoinSelectionHelper}
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * A plan whose rows hold all keys of a join's side that count.
 *
 * @param keys
 *   the keys of the join of which this plan is a side, in the join's order, or only the needed one
 * @param index
 *   the position of the needed key in `keys`
 * @param restricted
 *   whether the plan likely yields only a part of all keys
 * @param broadcast
 *   whether it is the side of a join that Spark will likely broadcast, whose keys are free
 */
private[join] case class KeySource(
    plan: LogicalPlan,
    keys: Seq[Expression],
    index: Int,
    restricted: Boolean,
    broadcast: Boolean
) {

  def key: Expression = keys(index)

  /** The source in words, for users. */
  def description: String = s"keys of ${KeySource.tables(plan)}${if (broadcast) "" else ", run for it"}"

  def estimate(bytes: ExpectedBytes): BenefitModel.Estimate =
    BenefitModel.Estimate(KeySource.tables(plan), bytes(plan), restricted, Repeatable(plan), broadcast)
}

private[join] object KeySource {

  private def tables(plan: LogicalPlan): String = plan.collectLeaves().map(name).distinct.mkString(", ")

  private def name(leaf: LogicalPlan): String = leaf match {
    case relation: LogicalRelation =>
      relation.catalogTable
        .map(_.identifier.table)
        .getOrElse(relation.relation match {
          case files: HadoopFsRelation => files.location.rootPaths.headOption.fold("files")(_.getName)
          case other => other.toString
        })
    case relation: DataSourceV2ScanRelation =>
      relation.relation.identifier.fold(relation.relation.table.name)(_.name)
    case other => other.nodeName
  }
}

/** A join whose side `build` Spark will likely broadcast. */
private[join] case class Broadcast(join: Join, side: BuildSide) {

  def build: LogicalPlan = if (side == BuildLeft) join.left else join.right

  def other: LogicalPlan = if (side == BuildLeft) join.right else join.left

  /** The pairs of keys that the join compares by `=`, of `build` and of the other side. */
  def equalities: Seq[(Expression, Expression)] = {
    val pairs = JoinGraph.equalities(join)
    if (side == BuildLeft) pairs else pairs.map(_.swap)
  }

  /** The broadcast as a source of one of the keys of `build`. `restricts`: whether a plan likely has few keys. */
  def source(key: Expression, restricts: LogicalPlan => Boolean): Option[KeySource] = join match {
    // Spark finds the broadcast again by all the keys in its own order.
    case ExtractEquiJoinKeys(_, lefts, rights, _, _, _, _, _) =>
      val keys = if (side == BuildLeft) lefts else rights
      val index = keys.indexWhere(_.semanticEquals(key))
      Option.when(index >= 0)(KeySource(build, keys, index, restricts(build), broadcast = true))
    case _ => None
  }

  def withBuild(plan: LogicalPlan): Broadcast =
    copy(if (side == BuildLeft) join.copy(left = plan) else join.copy(right = plan))

  def withOther(plan: LogicalPlan): Broadcast =
    copy(if (side == BuildLeft) join.copy(right = plan) else join.copy(left = plan))
}

private[join] object Broadcast extends JoinSelectionHelper {

  /**
   * The likely broadcast of a join, by Spark's own rules on hints and estimated sizes; the smaller side where both
   * qualify.
   */
  def of(join: Join, conf: SQLConf): Option[Broadcast] = {
    val (hintedLeft, hintedRight) = (hintToBroadcastLeft(join.hint), hintToBroadcastRight(join.hint))
    def bySize(side: LogicalPlan, refused: Boolean) =
      !hintedLeft && !hintedRight && !refused && canBroadcastBySize(side, conf)
    val left = canBuildBroadcastLeft(join.joinType) &&
      (hintedLeft || bySize(join.left, hintToNotBroadcastLeft(join.hint)))
    val right = canBuildBroadcastRight(join.joinType) &&
      (hintedRight || bySize(join.right, hintToNotBroadcastRight(join.hint)))
    val rightIsSmaller = join.right.stats.sizeInBytes <= join.left.stats.sizeInBytes
    if (right && (!left || rightIsSmaller)) Some(Broadcast(join, BuildRight))
    else Option.when(left)(Broadcast(join, BuildLeft))
  }
}

/**
 * Separate plans for keys, which run beside the query. For one thread.
 *
 * @param skipping
 *   filters such a plan by its own joins
 * @param limit
 *   the most bytes that such a plan may read
 * @param transitive
 *   whether the filters of neighbours may restrict a relation
 * @param restricts
 *   whether a plan likely has few of the keys
 */
private[join] class SeparateRuns(
    graph: JoinGraph,
    bytes: ExpectedBytes,
    skipping: LogicalPlan => LogicalPlan,
    limit: BigInt,
    transitive: Boolean,
    restricts: LogicalPlan => Boolean
) {

  import SeparateRuns._

  private val made = mutable.HashMap.empty[(Int, Int), Option[LogicalPlan]]

  /**
   * A plan of the key's relation, which is semi-joined with its filtered neighbours where it has no filter of its own.
   * None where there is no filter nearby, or where it would read too much.
   *
   * @param target
   *   the relation that the keys are for, which takes no part
   */
  def source(key: Key, target: Int): Option[KeySource] =
    made
      .getOrElseUpdate((key.relation, target), restrict(key.relation, Set(target), if (transitive) MostHops else 0))
      .map { plan =>
        val columns = plan.output.filter(key.expression.references.contains)
        KeySource(ColumnPruning(Project(columns, plan)), Seq(key.expression), 0, restricted = true, broadcast = false)
      }

  private def restrict(relation: Int, visited: Set[Int], hops: Int): Option[LogicalPlan] = {
    val plan = graph.relations(relation)
    if (!Repeatable(plan)) None
    else if (restricts(plan)) Some(plan).filter(bytes(_) <= limit)
    else if (hops == 0) None
    else {
      val seen = visited + relation
      val restricted = graph.neighbours(relation).filterNot(neighbour => seen(neighbour._1)).foldLeft(plan) {
        case (sofar, (neighbour, pairs)) =>
          restrict(neighbour, seen, hops - 1).fold(sofar) { helper =>
            val condition = pairs.map[Expression] { case (theirs, ours) => EqualTo(ours.expression, theirs.expression) }
            Join(sofar, helper, LeftSemi, Some(condition.reduce(And(_, _))), JoinHint.NONE)
          }
      }
      // The same keys skip files of this plan, too, so that a large table may become a small one.
      Option.when(restricted ne plan)(skipping(restricted)).filter(bytes(_) <= limit)
    }
  }
}

private object SeparateRuns {

  // Through more than one further table, an estimate of selectivity is too uncertain.
  private val MostHops = 1
}

/**
 * Decides whether a plan yields the same rows when it runs again. Pure.
 *
 * The keys of a join's side may come from a second run of it: a key that the second run lacks would lose rows of the
 * join. Catalyst's `deterministic` is not enough: a LIMIT may take other rows, a window function break ties otherwise,
 * `first` and `collect_list` see rows in another order, and the code of typed operations may do anything. So this names
 * the operators and aggregate functions that do not depend on the order of rows; all others are not repeatable.
 */
private[join] object Repeatable {

  def apply(plan: LogicalPlan): Boolean =
    plan.deterministic && !plan.isStreaming && isRepeatable(plan) && plan.children.forall(apply) &&
      plan.expressions.forall(_.collect { case subquery: SubqueryExpression => subquery.plan }.forall(apply))

  private def isRepeatable(node: LogicalPlan): Boolean = node match {
    // An indexed scan reads one version of its table; JoinSkipping lists the files of other tables once for both runs.
    case FilesOf(_) | _: LocalRelation | _: OneRowRelation => true
    case _: Project | _: Filter | _: Join | _: Union => true
    case Aggregate(groups, results, _, _) => groups.forall(isExact) && results.forall(isExact)
    case _ => false
  }

  /** Whether equal values are identical throughout the expression, and no aggregate depends on the order of rows. */
  private def isExact(expression: Expression): Boolean = !expression.exists {
    case AggregateExpression(function, _, _, _, _) => !ignoresOrder(function)
    case part => !isExact(part.dataType)
  }

  private def ignoresOrder(function: AggregateFunction): Boolean = function match {
    // The Bloom filter of Spark's runtime filters depends on the values alone.
    case _: Count | _: Min | _: Max | _: BloomFilterAggregate => true
    // try_sum and try_avg yield null on overflow, which an intermediate sum may have in one order only.
    case sum: Sum => sum.prettyName == "sum" && cannotOverflow(sum.child.dataType)
    case average: Average => average.prettyName == "avg" && cannotOverflow(average.child.dataType)
    case _ => false
  }

  private def cannotOverflow(summed: DataType): Boolean = summed match {
    // A sum of whole numbers wraps around, the same in every order, or fails.
    case ByteType | ShortType | IntegerType | LongType => true
    case decimal: DecimalType => decimal.precision + DigitsOfSum <= DecimalType.MAX_PRECISION
    case _ => false
  }

  /** The additional digits of Spark's sums of decimals. */
  private val DigitsOfSum = 10

  /**
   * Whether values of the type are exact, and equal ones identical: false for signed zeros and collated strings.
   */
  private def isExact(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | BooleanType => true
    case DateType | TimestampType | TimestampNTZType | StringType | BinaryType | NullType => true
    case _: DecimalType => true
    case ArrayType(element, _) => isExact(element)
    case StructType(fields) => fields.forall(field => isExact(field.dataType))
    case _ => false
  }
}

/**
 * Guesses whether a plan yields only a part of the keys of its tables, since something in it filters. Only performance
 * depends on it.
 */
private[join] object Restricted extends PredicateHelper {

  def apply(plan: LogicalPlan): Boolean = plan match {
    case Filter(condition, child) => isLikelySelective(condition) || apply(child)
    case Join(left, right, kind, _, _) =>
      kind match {
        case _: InnerLike | LeftSemi => apply(left) || apply(right)
        case LeftOuter | LeftAnti | ExistenceJoin(_) => apply(left)
        case RightOuter => apply(right)
        case _ => false
      }
    case union: Union => union.children.forall(apply)
    case _: LocalRelation => true
    case unary: UnaryNode => apply(unary.child)
    case _ => false
  }
}
