; domain.pddl for an agent that looks at what came of each call and plans anew: besides what the benchmark's skills need and
; give, it says what keeps the robot from going on and what helps. Costs (control steps) are planner/replanning.py's.
(define (domain home_rearrangement_closed_loop)
  (:requirements :strips :typing :negative-preconditions :disjunctive-preconditions
                 :universal-preconditions :conditional-effects)

  (:types
    static_obj robot - object
    art_receptacle obj - static_obj
    cab fridge - art_receptacle
    movable goal - obj)

  (:predicates
    (holding ?o - movable ?r - robot)
    (not_holding ?r - robot)
    (in ?o - obj ?c - art_receptacle)
    (opened_cab ?c - cab)
    (closed_cab ?c - cab)
    (opened_fridge ?c - fridge)
    (closed_fridge ?c - fridge)
    (robot_at ?x - static_obj ?r - robot)
    (object_at ?o - movable ?g - goal)
    (belongs ?o - movable ?g - goal)  ; other goals do not help
    (confirmed ?o - movable ?g - goal) ; it has been seen there, and nothing has come near it since
    (was_at ?x - static_obj ?r - robot)  ; where it last drove to: the way on begins there
    (lost ?x - obj)                      ; nobody knows where it is, or it lies where no hand gets
    (hard ?x - static_obj)               ; twice in a row it could not be worked at from where the robot came
    (stuck ?r - robot)                   ; its last call ran out of time: it leans on something, or is caught
    (arm_out ?r - robot))                ; the arm is not at rest

  (:action nav
    :parameters (?x - obj ?r - robot)
    :precondition (and (not (robot_at ?x ?r)) (not (stuck ?r)) (not (arm_out ?r)) (not (lost ?x))
                       (not (hard ?x)))
    :effect (and
      (forall (?y - static_obj) (and (not (robot_at ?y ?r)) (not (was_at ?y ?r))))
      (robot_at ?x ?r) (was_at ?x ?r)))

  (:action nav_to_receptacle
    :parameters (?c - art_receptacle ?o - obj ?r - robot)
    :precondition (and (in ?o ?c) (not (robot_at ?c ?r)) (not (stuck ?r)) (not (arm_out ?r)) (not (hard ?c)))
    :effect (and
      (forall (?y - static_obj) (and (not (robot_at ?y ?r)) (not (was_at ?y ?r))))
      (robot_at ?c ?r) (was_at ?c ?r)))

  (:action pick
    :parameters (?o - movable ?r - robot)
    :precondition (and
      (not_holding ?r)
      (robot_at ?o ?r)
      (not (lost ?o))
      (not (stuck ?r))
      (forall (?c - cab) (or (not (in ?o ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?o ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (holding ?o ?r)
      (not (not_holding ?r))
      (not (robot_at ?o ?r))
      (forall (?c - art_receptacle) (not (in ?o ?c)))
      (forall (?g - goal) (and (not (object_at ?o ?g)) (not (confirmed ?o ?g))))))

  (:action place
    :parameters (?o - movable ?g - goal ?r - robot)
    :precondition (and
      (holding ?o ?r)
      (belongs ?o ?g)
      (robot_at ?g ?r)
      (not (stuck ?r))
      (forall (?c - cab) (or (not (in ?g ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?g ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (object_at ?o ?g)
      (confirmed ?o ?g)
      (not_holding ?r)
      (not (holding ?o ?r))
      (not (robot_at ?g ?r))))

  (:action open_cab
    :parameters (?c - cab ?o - obj ?r - robot)
    :precondition (and
      (robot_at ?c ?r) (closed_cab ?c) (in ?o ?c) (not_holding ?r) (not (stuck ?r)))
    :effect (and (opened_cab ?c) (not (closed_cab ?c)) (not (robot_at ?c ?r))))

  (:action open_fridge
    :parameters (?f - fridge ?o - obj ?r - robot)
    :precondition (and
      (robot_at ?f ?r) (closed_fridge ?f) (in ?o ?f) (not_holding ?r) (not (stuck ?r)))
    :effect (and (opened_fridge ?f) (not (closed_fridge ?f)) (not (robot_at ?f ?r))))

  ; Where it was taken from, to have the hand free: for a door that is shut after all.
  (:action put_back
    :parameters (?o - movable ?r - robot)
    :precondition (and (holding ?o ?r) (robot_at ?o ?r) (not (stuck ?r)))
    :effect (and (not_holding ?r) (not (holding ?o ?r)) (not (robot_at ?o ?r))))

  ; Look whether what was placed is there still.
  (:action look
    :parameters (?o - movable ?g - goal ?r - robot)
    :precondition (and (object_at ?o ?g) (robot_at ?g ?r))
    :effect (confirmed ?o ?g))

  ; Another way: first to another side of it.
  (:action go_round
    :parameters (?x - static_obj ?r - robot)
    :precondition (and (hard ?x) (not (stuck ?r)) (not (arm_out ?r)))
    :effect (and (not (hard ?x)) (forall (?y - static_obj) (not (robot_at ?y ?r)))))

  ; Recovery: the way it came, backwards; and the arm to rest, which needs room.
  (:action back_off
    :parameters (?r - robot)
    :precondition (stuck ?r)
    :effect (and (not (stuck ?r)) (forall (?y - static_obj) (not (robot_at ?y ?r)))))

  (:action tuck
    :parameters (?r - robot)
    :precondition (and (arm_out ?r) (not (stuck ?r)))
    :effect (not (arm_out ?r))))
